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
console.log(`started in ${seconds(started)}`);

/** What cases work with. */
const context = {
  browser, strata, proxy, binary, model,
  /** A page at the proxy, ready to use; its faults are the case's unless it takes them. */
  async open(options = {}, path = "/") {
    const page = await browser.page(options);
    this.pages.push(page);
    await page.goto((options.url ?? proxy.url) + path);
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
  pages: [],
};

let failed = 0;
let ran = 0;
for (const [title, run] of [...render, ...chat, ...faults, ...look]) {
  if (!title.includes(part)) continue;
  const from = Date.now();
  ++ran;
  context.pages = [];
  proxy.script = null;
  proxy.bodies.length = 0;
  proxy.fault = null;
  try {
    await run(context);
    if (proxy.fault !== null) throw proxy.fault;
    const errors = context.pages.flatMap((page) => page.errors);
    if (errors.length > 0) throw new Error(`the page complains: ${errors.join("; ")}`);
    console.log(`ok      ${title} (${seconds(from)})`);
  } catch (error) {
    ++failed;
    console.log(`FAILED  ${title} (${seconds(from)})\n${error.stack}`);
    const page = context.pages.at(-1);
    if (page) await context.picture(page, `failed-${ran}`).catch(() => {});
  }
  for (const page of context.pages) await page.close();
}
proxy.stop();
await Promise.all([browser.stop(), strata.stop()]);
console.log(`${ran} cases, ${failed} failed, ${seconds(started)}`);
process.exit(failed > 0 || ran === 0 ? 1 : 0);
