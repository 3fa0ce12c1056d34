// Settings: the system prompt of this conversation, and how tokens are drawn. A field that is left
// empty is the server's business; what that is stands in it in grey.
import * as store from "./store.js";
import { $, el, icon } from "./ui.js";

// As the server takes them.
const FIELDS = [
  ["temperature", "Temperature", "0 always takes the likeliest token", 0, 100, false],
  ["top_k", "Top-k", "keep so many of the likeliest; 0: all", 0, 2147483647, true],
  ["top_p", "Top-p", "keep the likeliest that make up this share; 1: all", 0, 1, false],
  ["min_p", "Min-p", "drop those less likely than this share of the likeliest", 0, 1, false],
  ["repeat_penalty", "Repeat penalty", "above 1 makes repetition less likely", 0.01, 100, false],
  ["presence_penalty", "Presence penalty", "against tokens that the answer has", -100, 100, false],
  ["frequency_penalty", "Frequency penalty", "the more, the oftener it has them", -100, 100, false],
  ["max_tokens", "Most tokens", "of an answer; −1: until it ends", -1, 2147483647, true],
  ["seed", "Seed", "the same seed gives the same answer; −1: another each time", -1, Number.MAX_SAFE_INTEGER, true],
];

export class Settings {
  /** `app`: props(), chat(), systemChanged(), setKey(key). */
  constructor(app) {
    this.app = app;
    this.values = store.loadSettings();
    this.inputs = new Map();
    this.dialog = $("settings");
    this.dialog.querySelector(".sheet-head button").append(icon("close"));
    // A click beside the sheet closes it.
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.#make();
  }

  /** Fields of a request. */
  sampling() { return { ...this.values.sampling }; }

  #make() {
    this.system = el("textarea", { id: "system-text", rows: "5", spellcheck: "true",
      placeholder: "You are …", oninput: () => this.#systemChanged() });
    this.forNew = el("input", { type: "checkbox", onchange: () => this.#systemChanged() });
    const grid = el("div", { class: "grid" }, ...FIELDS.map((field) => this.#field(field)));
    this.reset = el("button", { type: "button", class: "button", text: "All as the server has it",
      onclick: () => {
        this.values.sampling = {};
        store.saveSettings(this.values);
        this.show();
      } });
    this.key = el("input", { type: "password", autocomplete: "off", spellcheck: "false",
      onchange: () => this.app.setKey(this.key.value.trim()) });
    $("settings-body").append(
      el("section", {},
        el("h3", { text: "System prompt" }),
        el("label", { class: "hidden", for: "system-text", text: "System prompt of this conversation" }),
        this.system,
        el("label", { class: "check" }, this.forNew, el("span", { text: "For new conversations too" }))),
      el("section", {},
        el("h3", { text: "Sampling" }),
        el("p", { class: "dim", text: "Empty fields are as the server was started." }),
        grid, this.reset),
      el("section", {},
        el("h3", { text: "Key" }),
        el("label", { class: "field" },
          el("span", { class: "dim", text: "Only for servers started with --api-key; kept in this tab." }),
          this.key)));
  }

  #field([name, label, help, least, most, whole]) {
    const input = el("input", { type: "number", id: `set-${name}`, name, min: least, max: most,
      step: whole ? 1 : "any", inputmode: whole && least >= 0 ? "numeric" : "text",
      "aria-describedby": `help-${name}` });
    const note = el("span", { class: "dim", id: `help-${name}`, text: help });
    input.addEventListener("input", () => {
      const value = input.value.trim() === "" ? null : Number(input.value);
      const wrong = input.validity.badInput || (value !== null &&
        (!Number.isFinite(value) || value < least || value > most || (whole && !Number.isInteger(value))));
      input.setAttribute("aria-invalid", String(wrong));
      note.textContent = wrong
        ? `${whole ? "A whole number" : "A number"} from ${least}${most < 1e9 ? ` to ${most}` : " on"}` : help;
      if (value === null || wrong) delete this.values.sampling[name];
      else this.values.sampling[name] = value;
      store.saveSettings(this.values);
      this.#count();
    });
    this.inputs.set(name, input);
    return el("div", { class: "field" }, el("label", { for: input.id, text: label }), input, note);
  }

  #systemChanged() {
    this.app.chat().system = this.system.value;
    if (this.forNew.checked) this.values.system = this.system.value;
    else if (this.values.system === this.system.value) this.values.system = "";
    store.saveSettings(this.values);
    this.app.systemChanged();
  }

  #count() {
    const n = Object.keys(this.values.sampling).length;
    this.reset.disabled = n === 0;
    $("open-settings").classList.toggle("marked", n > 0);
  }

  show() {
    const params = this.app.props()?.default_generation_settings?.params ?? {};
    for (const [name, input] of this.inputs) {
      const server = name === "max_tokens" ? params.max_tokens ?? params.n_predict : params[name];
      input.placeholder = Number.isFinite(server) ? String(Number(server.toPrecision(6))) : "";
      input.value = this.values.sampling[name] ?? "";
      input.removeAttribute("aria-invalid");
    }
    this.system.value = this.app.chat().system;
    this.forNew.checked = this.values.system !== "" && this.values.system === this.system.value;
    this.key.value = store.apiKey();
    this.#count();
  }

  open(focus = null) {
    if (this.dialog.open) return;
    this.show();
    this.dialog.showModal();
    if (focus === "system") this.system.focus();
  }
}
