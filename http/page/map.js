// The documents of one answer, each drawn along its length, with the chunks that retrieval fetched at one step lit by weight. A step
// is one landmark; each group of the model's layers retrieves by itself and has a row of its own.
import { count, counted, make } from "./format.js";

const LEAST = 0.05; // of a block that counts as read

const colour = (group) => `var(--group-${group % 4})`;
const light = (weight) => `${(0.3 + 0.7 * Math.sqrt(weight)).toFixed(3)}`;
const percent = (part) => `${(100 * part).toFixed(4)}%`;

const key = (hit, group) => `${group} ${hit.document} ${hit.chunk}`;

function style(element, values) {
  for (const [name, value] of Object.entries(values)) element.style.setProperty(`--${name}`, value);
  return element;
}

export class RetrievalMap {
  /** `documents`: {id: document}. `open(hit)` shows a chunk, `moved(step)` that another step is shown. Without `chips` hits are bars alone. */
  constructor(documents, open, moved, { chips = true } = {}) {
    this.documents = documents;
    this.chips = chips;
    this.open = open;
    this.moved = moved;
    this.steps = []; // {position, length, groups: Map of number to hits}
    this.shown = -1;
    this.opened = "";
    this.strips = make("div");
    this.hits = make("div", { className: "hits" });
    this.slider = make("input", { type: "range", min: 0, max: 0, value: 0, ariaLabel: "Step of retrieval" });
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    this.label = make("span");
    this.walk = make("div", { className: "steps" }, this.slider, this.label);
    this.element = make("div", { className: "map", hidden: true }, this.strips, this.walk, this.hits);
  }

  /** `length`: characters of the answer so far. */
  add(retrieval, length) {
    if (!retrieval.hits.length) return;
    const follows = this.shown === this.steps.length - 1;
    if (this.steps.at(-1)?.position !== retrieval.position) this.steps.push({ position: retrieval.position, length, groups: new Map() });
    this.steps.at(-1).groups.set(retrieval.group, retrieval.hits);
    this.element.hidden = false;
    this.slider.max = this.steps.length - 1;
    this.walk.hidden = this.steps.length < 2;
    this.show(follows ? this.steps.length - 1 : this.shown);
  }

  show(step) {
    this.shown = step;
    this.slider.value = step;
    const { position, groups } = this.steps[step];
    const where = `step ${step + 1} of ${this.steps.length}, position ${count(position)}`;
    this.label.textContent = where;
    this.slider.ariaValueText = where;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const numbers = [...new Set(this.steps.flatMap((one) => [...one.groups.keys()]))].sort((a, b) => a - b);
    this.strips.replaceChildren(...[...this.documents.values()].filter((one) => this.chips || this.has(one)).map((one) => this.strip(one, numbers, step)));
    if (this.chips) this.hits.replaceChildren(...numbers.flatMap((group) => (groups.get(group) ?? []).map((hit) => this.chip(hit, group))));
    if (focused) this.element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.moved(this.steps[step], this.steps[step + 1]);
  }

  /** Shows the step at which a block had its largest weight, and the block as opened; null: none is. */
  reveal(hit) {
    this.opened = "";
    let most = 0;
    let where = this.shown;
    for (const [step, { groups }] of this.steps.entries())
      for (const [group, hits] of groups)
        for (const one of hits) {
          if (!hit || one.document !== hit.document || one.begin !== hit.begin || one.weight <= most) continue;
          [most, where, this.opened] = [one.weight, step, key(one, group)];
        }
    if (where >= 0) this.show(where);
  }

  /** Whether a block of the document was read at any step. */
  has(document) {
    return this.steps.some(({ groups }) => [...groups.values()].some((hits) => hits.some((hit) => hit.document === document.id && hit.weight >= LEAST)));
  }

  /** The block of the largest weight at any step, if it weighs anything; else null. */
  heaviest() {
    const hits = this.steps.flatMap(({ groups }) => [...groups].flatMap(([group, found]) => found.map((hit) => ({ ...hit, group }))));
    const [first] = hits.filter((hit) => hit.document && hit.weight >= LEAST).sort((a, b) => b.weight - a.weight);
    return first ?? null;
  }

  strip(found, numbers, step) {
    const name = make("div", { className: "name" }, found.id, make("span", {}, counted(found.tokens ?? 0, "token")));
    const rows = numbers.flatMap((group) => {
      const track = make("div", { className: "track" });
      for (let earlier = 0; earlier < step; earlier += 1)
        for (const hit of this.steps[earlier].groups.get(group) ?? [])
          if (hit.document === found.id && hit.weight > 0.01) {
            const trace = make("i");
            trace.style.left = percent((hit.begin + hit.end) / 2 / found.bytes);
            track.append(trace);
          }
      const hits = (this.steps[step].groups.get(group) ?? []).filter((hit) => hit.document === found.id);
      track.append(...hits.toReversed().map((hit) => this.bar(hit, group, found)));
      return [style(make("div", { className: "group" }, numbers.length > 1 ? `group ${group}` : "retrieved"), { colour: colour(group) }), style(track, { colour: colour(group) })];
    });
    return make("div", { className: "strip" }, name, ...rows);
  }

  bar(hit, group, found) {
    // Text before the first or behind the last pixel of the track would be half outside.
    const middle = Math.min(Math.max((hit.begin + hit.end) / 2 / found.bytes, 0.004), 0.996);
    const button = this.button(hit, group, "bar");
    button.tabIndex = -1; // the keyboard has the list below, in order of weight
    return style(button, { at: percent(middle), width: percent((hit.end - hit.begin) / found.bytes),
      height: percent(0.2 + 0.8 * Math.sqrt(hit.weight)), light: light(hit.weight) });
  }

  chip(hit, group) {
    const button = this.button(hit, group, "chip");
    const place = hit.document ? `${hit.document} #${hit.chunk}` : `this answer #${hit.chunk}`;
    button.append(`${place} · ${hit.weight.toFixed(2)} · ${hit.tier}`);
    return style(button, { colour: colour(group), light: light(hit.weight) });
  }

  button(hit, group, kind) {
    const chunk = key(hit, group);
    const title = `${hit.document || "this answer"}, chunk ${hit.chunk}, group ${group}: weight ${hit.weight.toFixed(3)}, score ${hit.score.toFixed(2)}, from ${hit.tier}`;
    const button = make("button", { type: "button", title, ariaLabel: title, ariaPressed: String(chunk === this.opened), disabled: !hit.document });
    button.dataset.key = `${kind} ${chunk}`;
    button.dataset.chunk = chunk;
    button.addEventListener("click", () => {
      this.opened = chunk === this.opened ? "" : chunk;
      for (const one of this.element.querySelectorAll("[data-chunk]")) one.ariaPressed = String(one.dataset.chunk === this.opened);
      this.open(this.opened ? { ...hit, group } : null);
    });
    return button;
  }
}
