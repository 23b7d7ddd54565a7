// A conversation: its turns, and what is asked for next. It lives in this page only; the server keeps nothing of it but what it has read.
import { byId } from "./format.js";
import { Reply } from "./reply.js";

const CLOSE = 48; // pixels from the end of the page that count as its end

export class Conversation {
  /** `fields()`: the request but for its messages; `documents()`: {id: document} that are mounted. `run(reply, body)` streams one answer. */
  constructor(fields, documents, run) {
    this.fields = fields;
    this.documents = documents;
    this.run = run;
    this.replies = [];
    this.atEnd = true; // of the page: what grows there is followed
    this.scrolledTo = 0; // pixels from the top, where the page was when it was last looked at
    addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  clear() {
    this.replies = [];
    byId("answers").replaceChildren();
  }

  /** Everything that was said and answered, then `question`. */
  messages(question) {
    const system = byId("system").value.trim();
    const said = this.replies.filter((one) => one.text)
      .flatMap((one) => [{ role: "user", content: one.question }, { role: "assistant", content: one.text }]);
    return [...(system ? [{ role: "system", content: system }] : []), ...said, { role: "user", content: question }];
  }

  async ask(question) {
    const documents = this.documents();
    const body = { ...this.fields(), messages: this.messages(question), mounts: [...documents.keys()] };
    const reply = new Reply(question, documents, (one) => this.again(one));
    byId("answers").append(reply.element);
    this.atEnd = true;
    this.follow();
    const following = new ResizeObserver(() => this.follow());
    following.observe(reply.element);
    await this.run(reply, body);
    this.follow();
    following.disconnect();
    this.replies.push(reply);
  }

  again(reply) {
    reply.element.remove();
    this.replies = this.replies.filter((one) => one !== reply);
    return this.ask(reply.question);
  }

  /**
   * Only a move up means that the person reads further up: the event comes a frame late, when an answer may have grown
   * below what was the end.
   */
  scrolled() {
    const near = document.documentElement.scrollHeight - scrollY - innerHeight < CLOSE;
    this.atEnd = near || (this.atEnd && scrollY >= this.scrolledTo);
    this.scrolledTo = scrollY;
  }

  /** Keeps the end of an answer in sight while it grows, unless the person reads further up. */
  follow() {
    if (!this.atEnd) return;
    scrollTo({ top: document.documentElement.scrollHeight });
    this.scrolledTo = scrollY;
  }
}
