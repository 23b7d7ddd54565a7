// Numbers and elements.
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function count(number) {
  return Math.round(number).toLocaleString("en");
}

/**
 * What a stream was like: `waited` until its first text, `took` from there to its end, both in ms. Tokens that came
 * together have no speed.
 */
export function speed(usage, waited, took) {
  const tokens = usage?.completion_tokens ?? 0;
  const facts = [counted(tokens, "token")];
  if (tokens > 1 && took > 10) facts.push(`${count((1000 * (tokens - 1)) / took)} tokens/s`);
  if (waited > 0) facts.push(`first text after ${count(waited)} ms`);
  return facts.join(" · ");
}

/** "1 token", "2,000 tokens" */
export function counted(number, word) {
  const shown = count(number);
  return `${shown} ${shown === "1" ? word : `${word}s`}`;
}

/** make("p", {className: "quiet"}, "text", otherElement) */
export function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}
