// One prompt and its continuation: the text as it comes, the map of what was retrieved, and the chunk that is open.
import { events, request } from "./api.js";
import { copied, marked } from "./copied.js";
import { make, speed } from "./format.js";
import { RetrievalMap } from "./map.js";
import { Passage } from "./passage.js";

export class Answer {
  constructor(prompt, documents) {
    this.prompt = prompt;
    this.text = "";
    this.from = this.to = 0; // of the text that was generated at the step that is shown
    this.words = make("p", { className: "answer" });
    this.speed = make("p", { className: "quiet speed", role: "status" });
    this.passage = new Passage(documents, () => this.draw());
    this.map = new RetrievalMap(documents, (hit) => this.passage.open(hit, () => this.text), (step, next) => this.highlight(step, next));
    this.element = make("article", { ariaLabel: "Answer" }, this.words, this.speed, this.map.element, this.passage.element);
    this.draw();
  }

  /** Streams the answer to `body`, of /v1/completions. */
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
      this.speed.textContent = speed(usage, first - start, performance.now() - first);
      this.passage.draw(this.text);
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

  highlight(step, next) {
    this.from = step.length;
    this.to = next ? next.length : this.text.length;
    this.draw();
  }

  draw() {
    const marks = this.passage.text ? copied(this.text, this.passage.text) : [];
    const part = (begin, end) => marked(this.text.slice(begin, end),
      marks.map(([a, b]) => [Math.max(a, begin) - begin, Math.min(b, end) - begin]).filter(([a, b]) => a < b));
    this.words.replaceChildren(make("span", { className: "prompt" }, this.prompt), ...part(0, this.from),
      make("span", { className: this.map.steps.length > 1 ? "now" : "" }, ...part(this.from, this.to)), ...part(this.to, this.text.length));
  }
}
