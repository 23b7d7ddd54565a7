// The passage of a document that is open under an answer: a block with its surroundings, and what the answer has in common with it.
import { documentPath, request } from "./api.js";
import { copied, marked } from "./copied.js";
import { count, make } from "./format.js";

const AROUND_BYTES = 240; // of the document's text, on both sides of the block

/** Text of a byte range that may cut characters at its ends. */
function decode(bytes) {
  return new TextDecoder().decode(bytes).replace(/^\uFFFD+|\uFFFD+$/g, "");
}

export class Passage {
  /** `documents`: {id: document}. `changed()` is called when another block is open, or none. */
  constructor(documents, changed) {
    this.documents = documents;
    this.changed = changed;
    this.found = null; // {hit, before, text, after}
    this.opens = 0;
    this.element = make("div", { className: "chunk", hidden: true });
  }

  /** The text of the block that is open, or null. */
  get text() {
    return this.found?.text ?? null;
  }

  /** `hit`: {document, begin, end} with what else is known of it, or null. `answer()`: the answer's text by then. */
  async open(hit, answer) {
    const turn = ++this.opens;
    this.found = null;
    this.element.hidden = !hit;
    this.changed();
    if (!hit) return;
    this.element.style.setProperty("--colour", `var(--group-${(hit.group ?? 0) % 4})`);
    this.element.replaceChildren(make("span", { className: "quiet" }, "…"));
    try {
      const found = await this.read(hit);
      if (turn !== this.opens) return; // another one was opened meanwhile
      this.found = found;
      this.draw(answer());
      this.changed();
    } catch (error) {
      if (turn === this.opens) this.element.replaceChildren(make("span", { className: "wrong", role: "alert" }, error.message));
    }
  }

  async read(hit) {
    const size = this.documents.get(hit.document)?.bytes ?? hit.end;
    const begin = Math.max(hit.begin - AROUND_BYTES, 0);
    const end = Math.min(hit.end + AROUND_BYTES, size);
    const response = await request("GET", `${documentPath(hit.document)}/text?begin=${begin}&end=${end}`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    return { hit, before: decode(bytes.subarray(0, hit.begin - begin)),
      text: decode(bytes.subarray(hit.begin - begin, hit.end - begin)), after: decode(bytes.subarray(hit.end - begin)) };
  }

  draw(answer) {
    if (!this.found) return;
    const { hit, before, text, after } = this.found;
    const facts = [hit.chunk === undefined ? hit.document : `${hit.document}, chunk ${count(hit.chunk)}`,
      `bytes ${count(hit.begin)} to ${count(hit.end)}`, `weight ${hit.weight.toFixed(3)}`];
    if (hit.group !== undefined) facts.push(`group ${hit.group}`);
    if (hit.tier) facts.push(`from ${hit.tier}`);
    const around = (part) => make("span", { className: "around" }, part);
    this.element.replaceChildren(make("div", { className: "quiet" }, facts.join(" · ")),
      make("p", {}, around(before), make("span", { className: "text" }, ...marked(text, copied(text, answer))), around(after)));
  }
}
