// One turn of a conversation: what was said, the answer as it comes, what it cites, and the map of what was retrieved for it.
import { copied, marked } from "./copied.js";
import { count, make, speed } from "./format.js";
import { RetrievalMap } from "./map.js";
import { Passage } from "./passage.js";
import { stream } from "./stream.js";

const SHOWN = 36; // characters of a citation

export class Reply {
  /** `documents`: {id: document} that are mounted. `again(reply)` is called when the person wants another try. */
  constructor(question, documents, again) {
    this.question = question;
    this.documents = documents;
    this.text = "";
    this.citations = [];
    this.cited = null; // the citation that is open
    this.opened = null; // settles when the first passage is there
    this.words = make("p", { className: "answer" });
    this.facts = make("p", { className: "quiet speed", role: "status" });
    this.chips = make("div", { className: "citations", hidden: true });
    this.passage = new Passage(documents, () => this.draw());
    this.map = new RetrievalMap(documents, (hit) => this.show(hit), () => {}, { chips: false });
    this.retry = make("button", { type: "button", className: "small", hidden: true }, "Try again");
    this.retry.addEventListener("click", () => again(this));
    this.bubble = make("div", { className: "bubble theirs" }, this.words, this.facts, this.chips, this.passage.element, this.map.element);
    this.element = make("article", { ariaLabel: "Question and answer", className: "turn" },
      make("p", { className: "bubble mine" }, question), this.bubble, this.retry);
  }

  /** Streams the answer to `body`, of /v1/chat/completions. Afterwards `text` is empty if there is no answer to go on from. */
  async run(body, signal) {
    await stream(this.element, "/v1/chat/completions", body, signal, {
      take: (event) => this.take(event),
      done: (usage, waited, took) => {
        if (!this.text) this.note("The answer is empty.");
        this.facts.textContent = this.sum(usage, waited, took);
      },
      stopped: () => this.stopped(),
      failed: (message) => this.fail(message),
    });
    this.leaveUnlessAnswered();
    await this.opened;
  }

  take(event) {
    if (event.retrieval) this.map.add(event.retrieval, this.text.length);
    if (event.citations) this.cite(event.citations, event.nothing);
    if (event.dropped_messages) this.sayDropped(event.dropped_messages);
    const choice = event.choices?.[0];
    if (choice?.finish_reason === "length") this.note("The answer was cut at its most tokens.");
    if (choice?.repeats_from) this.cut(choice.repeats_from);
    if (!choice?.delta?.content) return false;
    this.text += choice.delta.content;
    this.draw();
    return true;
  }

  /** What the answer only repeats has been shown, but is no part of it. */
  cut(bytes) {
    this.text = new TextDecoder().decode(new TextEncoder().encode(this.text).slice(0, bytes));
    this.note("The answer was stopped: it only repeated itself.");
    this.draw();
  }

  /** Before the event that has the citations: what was retrieved is known all the same. */
  stopped() {
    this.facts.textContent = "Stopped.";
    this.opened = this.open(this.map.heaviest());
  }

  sum(usage, waited, took) {
    const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
    const facts = speed(usage, waited, took);
    return cached > 0 ? `${facts} · ${count(cached)} of ${count(usage.prompt_tokens)} prompt tokens were read before` : facts;
  }

  note(text) {
    this.bubble.append(make("p", { className: "quiet note" }, text));
  }

  sayDropped(messages) {
    const what = messages === 1 ? "the oldest message" : `the oldest ${count(messages)} messages`;
    this.note(`The conversation has become longer than the model's context: ${what} had no room and was not read.`);
  }

  fail(message) {
    this.bubble.append(make("p", { className: "wrong", role: "alert" }, message));
    this.retry.hidden = false;
  }

  /** What got no answer is not part of the conversation: the next question would follow a question. */
  leaveUnlessAnswered() {
    if (this.text) return;
    this.element.classList.add("left");
    this.retry.hidden = false;
  }

  /** `nothing`: the weight of no document in the answer, where the model says it. */
  cite(citations, nothing) {
    this.citations = citations;
    if (nothing === 1 && !citations.length) this.note("No document was read for this answer.");
    this.chips.hidden = !citations.length;
    this.chips.replaceChildren(make("span", { className: "quiet" }, "From"), ...citations.map((one, index) => this.chip(one, index)));
    this.opened = this.open(citations[0] ?? null); // the answer may have misread it
  }

  open(hit) {
    this.map.reveal(hit);
    return this.show(hit);
  }

  chip(citation, index) {
    const place = `${citation.document}, bytes ${count(citation.begin)} to ${count(citation.end)}, weight ${citation.weight.toFixed(3)}`;
    const words = citation.text?.trim().replace(/\s+/g, " ") ?? "";
    const chip = make("button", { type: "button", title: `${place}\n${citation.text ?? ""}`, ariaLabel: `Citation ${index + 1}: ${place}`, ariaPressed: "false" },
      make("b", {}, String(index + 1)), ` ${citation.document}`, make("span", { className: "quiet" }, words ? ` ${words.length > SHOWN ? `${words.slice(0, SHOWN)}…` : words}` : " (deleted)"));
    chip.addEventListener("click", () => this.open(citation === this.cited ? null : citation));
    return chip;
  }

  /** `hit`: a citation, or what the map shows of the same block. */
  show(hit) {
    const same = (one) => hit && one.document === hit.document && one.begin === hit.begin;
    this.cited = this.citations.find(same) ?? null;
    for (const [index, chip] of [...this.chips.querySelectorAll("button")].entries())
      chip.ariaPressed = String(this.citations[index] === this.cited);
    return this.passage.open(hit, () => this.text);
  }

  draw() {
    this.words.replaceChildren(...marked(this.text, this.passage.text ? copied(this.text, this.passage.text) : []));
  }
}
