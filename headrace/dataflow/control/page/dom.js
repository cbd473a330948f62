// Makes elements. Every text is set as text, never as markup: what a model answers is a stranger's.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; a property that is a function listens, the others are attributes. */
export function make(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function shape(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets a text, where it is another. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Keeps one child of `parent` for each key, in order: made once, brought up to date each time. */
export function keyed(parent, keys, create, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  keys.forEach((key, place) => {
    const child = old.get(key) ?? create(key);
    child.dataset.key = key;
    old.delete(key);
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
    update(child, key);
  });
  old.forEach((child) => child.remove());
}

/** A number for a narrow place: three digits; k and M from ten thousand on, an exponent below a thousandth. */
export function figure(value) {
  const size = Math.abs(value);
  if (size >= 1e7) return `${(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)}k`;
  if (size >= 100) return value.toFixed(0);
  if (size > 0 && size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return `${Math.floor(s / 3600)} h`;
}

/** Seconds to the millisecond where they are few. */
export const seconds = (value) => (value < 10 ? `${value.toFixed(3)} s` : duration(value));

export const percent = (share) => `${Math.round(100 * share)} %`;

export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString();

/** Sets a size in percent; a style of its own in the markup is what the page's policy refuses. */
export function wide(element, share) {
  element.style.width = `${100 * share}%`;
  return element;
}

/** Moves an element to the right, by a share of what it stands in. */
export function offset(element, share) {
  element.style.marginLeft = `${100 * share}%`;
  return element;
}
