"use strict";

// Make an element from a name, attributes and children. Strings become text nodes, never markup.
const DRAWN = new Set(["svg", "g", "path", "line", "circle", "text", "rect", "clipPath"]);

function make(name, attributes = {}, ...children) {
  const element = DRAWN.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

const find = (selector) => document.querySelector(selector);
const fill = (selector, ...children) => find(selector).replaceChildren(...children.flat());

// Show or hide a section; return whether to draw it.
function show(selector, wanted) {
  find(selector).hidden = !wanted;
  return wanted;
}

// A cell is text, null, an element, or text with attributes: {text, class, style}.
function table(headings, rows) {
  const cell = (name, content) => {
    if (content instanceof Node) return content;
    const { text = "–", ...attributes } = content?.text === undefined ? { text: content ?? "–" } : content;
    return make(name, attributes, text);
  };
  const row = (name, contents) => make("tr", {}, contents.map((content) => cell(name, content)));
  const body = make("tbody", {}, rows.map((contents) => row("td", contents)));
  const head = row("th", headings);
  for (const { cells } of body.rows) { // phones show the heading next to its cell
    [...cells].forEach((one, index) => { one.dataset.heading = head.cells[index].textContent; });
  }
  return make("table", {}, make("thead", {}, head), body);
}
const left = (text) => ({ class: "text", text: text ?? "–" });

// Number formats.
const exact = (value) => value.toLocaleString("en");
const share = (value) => `${(100 * value).toFixed(1)} %`;
const flops = (value) => (value ? value.toExponential(2).replace("+", "") : "0");
const trimmed = (text) => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

function many(value) {
  const units = ["", "k", "M", "B", "T"], power = Math.floor(Math.log10(Math.abs(value) || 1) / 3);
  const unit = Math.min(units.length - 1, Math.max(0, power));
  return `${+(value / 1000 ** unit).toPrecision(3)}${units[unit]}`;
}
function plain(value) {
  if (!value) return "0";
  if (Math.abs(value) >= 1e3) return many(value);
  return Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toPrecision(3);
}
function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${+(seconds / 60).toFixed(1)} min` : `${+(seconds / 3600).toFixed(1)} h`;
}
const maybe = (write, value) => (value == null ? undefined : write(value));
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
