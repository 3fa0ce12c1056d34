// Runs one file of tests: node run.mjs BUILD_FOLDER STRATA_BINARY FILE, or `install` for FILE.
//
// The clients are installed by `npm ci`, exactly as package-lock.json pins them, into
// BUILD_FOLDER/clients, and the tests run from a copy there. Files that need no client run without.
// Exit status 77 and "skipped: ..." when something that a test needs is not on this machine.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const SKIPPED = 77;
const INSTALL_SECONDS = 240;
const here = dirname(fileURLToPath(import.meta.url));
const [, , buildFolder, binary, file] = process.argv;
const folder = join(resolve(buildFolder), "clients");
const stamp = join(folder, "node_modules", ".installed");

function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(SKIPPED);
}

function copySources() {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(here)) {
    if (/\.(mjs|json)$/.test(name)) copyFileSync(join(here, name), join(folder, name));
  }
}

const lock = readFileSync(join(here, "package-lock.json"), "utf8");
const installed = () => existsSync(stamp) && readFileSync(stamp, "utf8") === lock;

function install() {
  if (installed()) return;
  const words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  const npm = spawnSync("npm", words, { cwd: folder, encoding: "utf8", timeout: INSTALL_SECONDS * 1000 });
  if (npm.error || npm.status !== 0) {
    rmSync(join(folder, "node_modules"), { recursive: true, force: true });
    const why = npm.error ? npm.error.message : npm.stderr.trim().split("\n").slice(0, 3).join(" | ");
    skip(`npm cannot install the clients: ${why}`);
  }
  writeFileSync(stamp, lock);
}

if (Number(process.versions.node.split(".")[0]) < 20) {
  skip(`the tests with public clients need Node.js 20, this is ${process.version}`);
}
copySources();
if (file === "install") {
  install();
  process.exit(0);
}
const needsClients = /from "(openai|@anthropic-ai\/sdk)"/.test(readFileSync(join(folder, file), "utf8"));
if (needsClients && !installed()) skip("the clients are not installed; the test clients/install says why");

const env = { ...process.env, STRATA_SOURCE: resolve(here, "../.."), STRATA_BINARY: resolve(binary) };
const run = spawnSync(process.execPath, ["--test", "--test-reporter", "spec", file], {
  cwd: folder,
  env,
  stdio: "inherit",
});
process.exit(run.status ?? 1);
