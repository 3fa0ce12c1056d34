// The field in which a message is written, and the files that go with it.
import { $, announce, bytes, el, icon, iconButton, toast } from "./ui.js";

const MOST_FILE = 256 * 1024;    // bytes
const MOST_ALL = 1024 * 1024;
const MOST_FILES = 20;

async function readText(file) {
  if (file.size > MOST_FILE) {
    throw new Error(`${file.name} has ${bytes(file.size)}; at most ${bytes(MOST_FILE)} can be attached.`);
  }
  const data = new Uint8Array(await file.arrayBuffer());
  if (data.includes(0)) throw new Error(`${file.name} is not a text file.`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data).replaceAll("\r\n", "\n");
  } catch {
    throw new Error(`${file.name} is not a text file (UTF-8).`);
  }
}

export class Composer {
  /** `act`: send(text, files) gives false when it cannot now; stop(); editLast(); system(). */
  constructor(act) {
    this.act = act;
    this.files = [];
    this.drafts = new Map();
    this.busy = false;
    this.area = $("composer-text");
    $("send").append(icon("send"));
    $("attach").append(icon("attach"));
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.busy) act.stop();
      else this.#send();
    });
    this.area.addEventListener("input", () => this.#fit());
    this.area.addEventListener("keydown", (event) => this.#key(event));
    this.area.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      this.attach(files);
    });
    $("attach").addEventListener("click", () => $("attach-file").click());
    $("attach-file").addEventListener("change", () => {
      this.attach([...$("attach-file").files]);
      $("attach-file").value = "";
    });
    $("system-chip").addEventListener("click", () => act.system());
    this.#dropping();
    // On a phone the key makes a line, as in other apps; the button sends.
    this.touch = matchMedia("(hover: none) and (pointer: coarse)");
    this.#fit();
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey && !this.touch.matches) {
      event.preventDefault();
      if (!this.busy) this.#send();
    } else if (event.key === "ArrowUp" && this.area.value === "" && this.act.editLast()) {
      event.preventDefault();
    }
  }

  #send() {
    const text = this.area.value.trim();
    if (text === "" && this.files.length === 0) return;
    if (!this.act.send(text, this.files)) return;
    this.area.value = "";
    this.files = [];
    this.#showFiles();
    this.#fit();
  }

  #fit() {
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
    $("send").disabled = !this.busy && this.area.value.trim() === "" && this.files.length === 0;
  }

  focus() { if (!this.touch.matches) this.area.focus(); }

  setBusy(busy) {
    if (busy !== this.busy) {
      this.busy = busy;
      $("send").replaceChildren(icon(busy ? "stop" : "send"));
      $("send").setAttribute("aria-label", busy ? "Stop" : "Send");
      $("send").title = busy ? "Stop (Esc)" : "Send";
      $("send").classList.toggle("stop", busy);
    }
    this.#fit();
  }

  setSystem(system) { $("system-chip").hidden = system.trim() === ""; }

  /** Each conversation keeps what was begun in it. */
  turnTo(from, to) {
    if (from !== null) this.drafts.set(from, { text: this.area.value, files: this.files });
    const draft = this.drafts.get(to) ?? { text: "", files: [] };
    this.area.value = draft.text;
    this.files = draft.files;
    this.#showFiles();
    this.#fit();
  }

  async attach(files) {
    for (const file of files) {
      try {
        if (this.files.length >= MOST_FILES) throw new Error(`At most ${MOST_FILES} files can be attached.`);
        const text = await readText(file);
        const all = this.files.reduce((sum, one) => sum + one.size, file.size);
        if (all > MOST_ALL) throw new Error(`The files together may have ${bytes(MOST_ALL)}.`);
        this.files.push({ name: file.name, size: file.size, text });
        announce(`${file.name} attached`);
      } catch (error) {
        toast(error.message);
      }
    }
    this.#showFiles();
    this.#fit();
    this.focus();
  }

  #showFiles() {
    const box = $("composer-files");
    box.hidden = this.files.length === 0;
    box.replaceChildren(...this.files.map((file) => el("span", { class: "file-chip" },
      icon("file"), el("span", { class: "file-name", text: file.name }),
      el("span", { class: "dim", text: bytes(file.size) }),
      iconButton("close", `Take ${file.name} off`, () => {
        this.files = this.files.filter((one) => one !== file);
        this.#showFiles();
        this.#fit();
        this.focus();
      }))));
  }

  #dropping() {
    let inside = 0;
    const has = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const show = (on) => { $("drop").hidden = !on; };
    window.addEventListener("dragenter", (event) => { if (has(event)) { ++inside; show(true); } });
    window.addEventListener("dragleave", (event) => {
      if (has(event) && --inside <= 0) { inside = 0; show(false); }
    });
    window.addEventListener("dragover", (event) => { if (has(event)) event.preventDefault(); });
    window.addEventListener("drop", (event) => {
      if (!has(event)) return;
      event.preventDefault();
      inside = 0;
      show(false);
      this.attach([...event.dataTransfer.files]);
    });
  }
}
