// Chromium without a window, driven over the DevTools protocol through a pipe: nothing to install.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"];

export function findBrowser() {
  const wanted = process.env.STRATA_CHROMIUM ? [process.env.STRATA_CHROMIUM] : NAMES;
  return wanted.find((name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0) ?? null;
}

export class Browser {
  #next = 1;
  #waiting = new Map();
  #listeners = new Map();  // by session
  #rest = "";

  static async start(name) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), "strata-page-"));
    browser.child = spawn(name, [
      "--headless=new", "--remote-debugging-pipe", `--user-data-dir=${browser.folder}`,
      "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
      "--disable-extensions", "--disable-background-networking", "--disable-component-update",
      "--disable-sync", "--hide-scrollbars", "--mute-audio", "about:blank",
    ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.child.stdio[4].setEncoding("utf8");
    browser.child.stdio[4].on("data", (text) => browser.#read(text));
    browser.child.stdio[3].on("error", () => {});
    browser.child.on("exit", () => {
      for (const { fail } of browser.#waiting.values()) fail(new Error("the browser ended"));
      browser.#waiting.clear();
    });
    await browser.send("Browser.getVersion");
    return browser;
  }

  #read(text) {
    const parts = (this.#rest + text).split("\0");
    this.#rest = parts.pop();
    for (const part of parts) {
      const message = JSON.parse(part);
      const waiting = this.#waiting.get(message.id);
      if (waiting !== undefined) {
        this.#waiting.delete(message.id);
        if (message.error) waiting.fail(new Error(`${waiting.method}: ${message.error.message}`));
        else waiting.done(message.result);
      } else if (message.method) {
        this.#listeners.get(message.sessionId)?.(message.method, message.params);
      }
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    return new Promise((done, fail) => {
      this.#waiting.set(id, { done, fail, method });
      this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  async page() {
    const { targetInfos } = await this.send("Target.getTargets");
    const { targetId } = targetInfos.find((one) => one.type === "page");
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    this.#listeners.set(sessionId, (method, params) => page.told(method, params));
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    return page;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.send("Browser.close").catch(() => {});
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(timer);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

const KEYS = { Enter: 13, Escape: 27, Tab: 9, ArrowUp: 38, ArrowDown: 40 };

export class Page {
  constructor(browser, session) {
    Object.assign(this, { browser, session });
    this.errors = [];    // uncaught ones, and what the browser itself complains of
    this.requests = [];  // addresses that were asked for
  }

  send(method, params = {}) { return this.browser.send(method, params, this.session); }

  told(method, params) {
    if (method === "Runtime.exceptionThrown") {
      const { exceptionDetails: details } = params;
      this.errors.push(details.exception?.description ?? details.text);
    } else if (method === "Log.entryAdded" && params.entry.level === "error") {
      this.errors.push(`${params.entry.source}: ${params.entry.text}`);
    } else if (method === "Network.requestWillBeSent") {
      this.requests.push(params.request.url);
    } else if (method === "Page.javascriptDialogOpening") {
      this.errors.push(`a dialog: ${params.message}`);
      this.send("Page.handleJavaScriptDialog", { accept: false }).catch(() => {});
    }
    this.waits?.(method);
  }

  async size(width, height, mobile = false) {
    await this.send("Emulation.setDeviceMetricsOverride",
                    { width, height, deviceScaleFactor: 1, mobile });
    await this.send("Emulation.setTouchEmulationEnabled", { enabled: mobile });
  }

  scheme(value, motion = "no-preference") {
    return this.send("Emulation.setEmulatedMedia", { features: [
      { name: "prefers-color-scheme", value }, { name: "prefers-reduced-motion", value: motion }] });
  }

  async #loading(method, params) {
    let timer = 0;
    const loaded = new Promise((resolve, reject) => {
      this.waits = (event) => { if (event === "Page.loadEventFired") resolve(); };
      timer = setTimeout(() => reject(new Error(`${method} ${params.url ?? ""} did not load`)), 60_000);
    });
    try {
      await this.send(method, params);
      await loaded;
    } finally {
      clearTimeout(timer);
    }
  }

  goto(url) { return this.#loading("Page.navigate", { url }); }
  reload() { return this.#loading("Page.reload", {}); }

  /** The value of an expression, or of a function called in the page with arguments. */
  async eval(what, ...values) {
    const expression = typeof what === "function"
      ? `(${what})(${values.map((value) => JSON.stringify(value)).join(",")})` : what;
    const { result, exceptionDetails } = await this.send("Runtime.evaluate",
      { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    if (exceptionDetails) {
      throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    }
    return result.value;
  }

  /** Until the expression is true; its value. */
  async until(what, ...values) {
    const end = Date.now() + 30_000;
    for (;;) {
      const value = await this.eval(what, ...values);
      if (value) return value;
      if (Date.now() > end) throw new Error(`it never came true: ${what} ${JSON.stringify(values)}`);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  }

  async key(key, { shift = false, ctrl = false, alt = false, code = "" } = {}) {
    const modifiers = (alt ? 1 : 0) | (ctrl ? 2 : 0) | (shift ? 8 : 0);
    const text = key === "Enter" ? "\r" : key.length === 1 && !ctrl && !alt ? key : undefined;
    const event = { key, code: code || key, modifiers, text, unmodifiedText: text,
                    windowsVirtualKeyCode: KEYS[key] ?? key.toUpperCase().charCodeAt(0) };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }

  /** Types into what has the focus. */
  type(text) { return this.send("Input.insertText", { text }); }

  /** A real click in the middle of the element. */
  async click(selector) {
    const point = await this.until((wanted) => {
      const node = document.querySelector(wanted);
      node?.scrollIntoView({ block: "nearest" });
      const box = node?.getBoundingClientRect();
      return box?.width > 0 ? { x: box.x + box.width / 2, y: box.y + box.height / 2 } : null;
    }, selector);
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", ...point });
    for (const type of ["mousePressed", "mouseReleased"]) {
      await this.send("Input.dispatchMouseEvent", { type, ...point, button: "left", clickCount: 1 });
    }
  }

  text(selector) {
    return this.eval((wanted) => document.querySelector(wanted)?.innerText ?? "", selector);
  }

  /** A picture as PNG. */
  async picture() {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    return Buffer.from(data, "base64");
  }

  /** As a new visitor would find it: nothing stored, nothing said. */
  async fresh(origin, { width = 1200, height = 820, scheme = "light", mobile = false } = {}) {
    await this.goto("about:blank");
    await this.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
    await this.size(width, height, mobile);
    await this.scheme(scheme);
    this.errors = [];
    this.requests = [];
  }
}
