// One prompt and its continuation: the text as it comes, the map of what was retrieved, and the chunk that is open.
import { copied, marked } from "./copied.js";
import { make, speed } from "./format.js";
import { RetrievalMap } from "./map.js";
import { Passage } from "./passage.js";
import { stream } from "./stream.js";

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
    await stream(this.element, "/v1/completions", body, signal, {
      take: (event) => this.take(event),
      done: (usage, waited, took) => {
        this.speed.textContent = speed(usage, waited, took);
        this.passage.draw(this.text);
      },
      stopped: () => { this.speed.textContent = "Stopped."; },
      failed: (message) => this.element.append(make("p", { className: "wrong", role: "alert" }, message)),
    });
  }

  take(event) {
    if (event.retrieval) this.map.add(event.retrieval, this.text.length);
    const piece = event.choices?.[0]?.text;
    if (piece) this.append(piece);
    return Boolean(piece);
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
