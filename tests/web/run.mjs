// The web page in a real browser: node run.mjs STRATA MODEL [PART OF A CASE'S NAME].
// Status 77 (skipped) when there is no Chromium; STRATA_CHROMIUM names one.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, findBrowser } from "./browser.mjs";
import { Proxy, Strata } from "./servers.mjs";
import { cases as chat } from "./chat.mjs";
import { cases as faults } from "./faults.mjs";
import { cases as look } from "./look.mjs";
import { cases as render } from "./render.mjs";

const [binary, model, part = ""] = process.argv.slice(2);
const name = findBrowser();
if (name === null) {
  console.log("skipped: no Chromium here (tools/install_deps.sh installs it)");
  process.exit(77);
}

const started = Date.now();
const seconds = (from) => `${((Date.now() - from) / 1000).toFixed(1)} s`;
const [browser, strata] = await Promise.all(
  [Browser.start(name), Strata.start(binary, model, "-np", "3")]);
const proxy = await Proxy.start(strata);
const page = await browser.page();
console.log(`started in ${seconds(started)}`);

/** What cases work with. */
const context = {
  browser, strata, proxy, binary, model,
  /** The page as a new visitor finds it; its faults are the case's unless that takes them. */
  async open(options = {}, path = "/") {
    const url = options.url ?? proxy.url;
    await page.fresh(url, options);
    await page.goto(url + path);
    if (options.ready !== false) {
      await page.until(() => document.querySelector("#model-name").textContent !== "");
    }
    return page;
  },
  /** For whoever wants to look: STRATA_PICTURES names a folder. */
  async picture(page, file) {
    const folder = process.env.STRATA_PICTURES;
    if (!folder) return;
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${file}.png`), await page.picture());
  },
};

let failed = 0;
let ran = 0;
for (const [title, run] of [...render, ...chat, ...faults, ...look]) {
  if (!title.includes(part)) continue;
  const from = Date.now();
  ++ran;
  page.errors = [];
  proxy.script = null;
  proxy.bodies.length = 0;
  proxy.fault = null;
  try {
    await run(context);
    if (proxy.fault !== null) throw proxy.fault;
    if (page.errors.length > 0) throw new Error(`the page complains: ${page.errors.join("; ")}`);
    console.log(`ok      ${title} (${seconds(from)})`);
  } catch (error) {
    ++failed;
    console.log(`FAILED  ${title} (${seconds(from)})\n${error.stack}`);
    await context.picture(page, `failed-${ran}`).catch(() => {});
  }
}
proxy.stop();
await Promise.all([browser.stop(), strata.stop()]);
console.log(`${ran} cases, ${failed} failed, ${seconds(started)}`);
process.exit(failed > 0 || ran === 0 ? 1 : 0);
