// One prompt and its answer: the text as it comes, the map of what was retrieved, and the chunk that is open.
import { documentPath, events, request } from "./api.js";
import { copied, marked } from "./copied.js";
import { count, make } from "./format.js";
import { RetrievalMap } from "./map.js";

const AROUND_BYTES = 240; // of the document's text, on both sides of a chunk

/** Text of a byte range that may cut characters at its ends. */
function decode(bytes) {
  return new TextDecoder().decode(bytes).replace(/^\uFFFD+|\uFFFD+$/g, "");
}

export class Answer {
  constructor(prompt, documents) {
    this.prompt = prompt;
    this.documents = documents;
    this.text = "";
    this.from = this.to = 0; // of the text that was generated at the step that is shown
    this.chunkText = null;
    this.opens = 0;
    this.words = make("p", { className: "answer" });
    this.speed = make("p", { className: "quiet speed", role: "status" });
    this.chunk = make("div", { className: "chunk", hidden: true });
    this.map = new RetrievalMap(documents, (hit) => this.open(hit), (step, next) => this.highlight(step, next));
    this.element = make("article", { ariaLabel: "Answer" }, this.words, this.speed, this.map.element, this.chunk);
    this.draw();
  }

  /** Streams the answer to `body`, of /v1/completions; false if it was stopped. */
  async run(body, signal) {
    this.element.classList.add("running");
    const start = performance.now();
    let first = 0;
    let usage = null;
    try {
      const response = await request("POST", "/v1/completions", {
        headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
      for await (const event of events(response)) {
        if (event.retrieval) this.map.add(event.retrieval, this.text.length);
        if (event.usage) usage = event.usage;
        const piece = event.choices?.[0]?.text;
        if (!piece) continue;
        if (!first) first = performance.now();
        this.append(piece);
      }
      this.finish(usage, first - start, performance.now() - first);
    } catch (error) {
      if (error.name !== "AbortError") {
        this.element.append(make("p", { className: "wrong", role: "alert" }, error.message));
      } else {
        this.speed.textContent = "Stopped.";
      }
    } finally {
      this.element.classList.remove("running");
    }
  }

  append(piece) {
    const follows = this.to === this.text.length;
    this.text += piece;
    if (follows) this.to = this.text.length;
    this.draw();
  }

  finish(usage, waited, took) {
    const tokens = usage?.completion_tokens ?? 0;
    const facts = [`${count(tokens)} tokens`];
    if (tokens > 1 && took > 0) facts.push(`${count((1000 * (tokens - 1)) / took)} tokens/s`);
    if (waited > 0) facts.push(`first text after ${count(waited)} ms`);
    this.speed.textContent = facts.join(" · ");
    this.drawChunk();
  }

  highlight(step, next) {
    this.from = step.length;
    this.to = next ? next.length : this.text.length;
    this.draw();
  }

  draw() {
    const marks = this.chunkText ? copied(this.text, this.chunkText.chunk) : [];
    const part = (begin, end) => marked(this.text.slice(begin, end),
      marks.map(([a, b]) => [Math.max(a, begin) - begin, Math.min(b, end) - begin]).filter(([a, b]) => a < b));
    this.words.replaceChildren(make("span", { className: "prompt" }, this.prompt), ...part(0, this.from),
      make("span", { className: this.map.steps.length > 1 ? "now" : "" }, ...part(this.from, this.to)), ...part(this.to, this.text.length));
  }

  async open(hit) {
    const turn = ++this.opens;
    this.chunkText = null;
    this.chunk.hidden = !hit;
    this.draw();
    if (!hit) return;
    this.chunk.style.setProperty("--colour", `var(--group-${hit.group % 4})`);
    this.chunk.replaceChildren(make("span", { className: "quiet" }, "…"));
    try {
      const size = this.documents.get(hit.document).bytes;
      const begin = Math.max(hit.begin - AROUND_BYTES, 0);
      const end = Math.min(hit.end + AROUND_BYTES, size);
      const response = await request("GET", `${documentPath(hit.document)}/text?begin=${begin}&end=${end}`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (turn !== this.opens) return; // another one was opened meanwhile
      this.chunkText = { hit, before: decode(bytes.subarray(0, hit.begin - begin)),
        chunk: decode(bytes.subarray(hit.begin - begin, hit.end - begin)), after: decode(bytes.subarray(hit.end - begin)) };
      this.drawChunk();
      this.draw();
    } catch (error) {
      if (turn === this.opens) this.chunk.replaceChildren(make("span", { className: "wrong", role: "alert" }, error.message));
    }
  }

  drawChunk() {
    if (!this.chunkText) return;
    const { hit, before, chunk, after } = this.chunkText;
    const facts = `${hit.document}, chunk ${count(hit.chunk)} · bytes ${count(hit.begin)} to ${count(hit.end)} · group ${hit.group} · weight ${hit.weight.toFixed(3)} · from ${hit.tier}`;
    const around = (text) => make("span", { className: "around" }, text);
    this.chunk.replaceChildren(make("div", { className: "quiet" }, facts),
      make("p", {}, around(before), make("span", { className: "text" }, ...marked(chunk, copied(chunk, this.text))), around(after)));
  }
}
