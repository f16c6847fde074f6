// Views are functions that return descriptions of elements; `patch` makes the document equal to them.
// What did not change is not touched, so that focus, selection and open details survive an update.

import { visible } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const PROPS = Symbol("props");
const KEY = Symbol("key");

/** Describe an element. Children: descriptions, texts, numbers, lists of them; null and false are skipped. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity).filter(isSomething) };
}

function isSomething(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}

/** Make the children of `parent` equal to `wanted`. Those with a `key` are moved rather than rewritten. */
export function patch(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child[KEY] !== undefined) keyed.set(child[KEY], child);
  let at = parent.firstChild;
  for (const node of wanted) {
    const live = reusable(at, node, keyed) ?? create(node);
    if (live === at) at = at.nextSibling;
    else parent.insertBefore(live, at);
    update(live, node);
  }
  while (at !== null) {
    const next = at.nextSibling;
    parent.removeChild(at);
    at = next;
  }
}

function reusable(at, node, keyed) {
  if (isText(node)) return at !== null && at.nodeType === Node.TEXT_NODE ? at : null;
  const key = node.props.key;
  if (key !== undefined) {
    const known = keyed.get(key);
    keyed.delete(key);
    return known !== undefined && known.localName === localName(node.tag) ? known : null;
  }
  const fits = at !== null && at[KEY] === undefined && at[PROPS] !== undefined;
  return fits && at.localName === localName(node.tag) ? at : null;
}

function isText(node) {
  return typeof node === "string" || typeof node === "number";
}

function localName(tag) {
  return tag.startsWith("svg:") ? tag.slice(4) : tag;
}

function create(node) {
  if (isText(node)) return document.createTextNode("");
  const isDrawn = node.tag.startsWith("svg:");
  const element = isDrawn ? document.createElementNS(SVG, localName(node.tag)) : document.createElement(node.tag);
  element[PROPS] = {};
  if (node.props.key !== undefined) element[KEY] = node.props.key;
  return element;
}

function update(live, node) {
  if (isText(node)) {
    const text = visible(String(node));
    if (live.data !== text) live.data = text;
    return;
  }
  const before = live[PROPS];
  live[PROPS] = node.props;
  for (const name in before) if (!(name in node.props)) setProp(live, name, null, before[name]);
  for (const name in node.props) setProp(live, name, node.props[name], before[name]);
  patch(live, node.children);
  // Last: a select has a value once its options are there. What a person typed meanwhile is compared too.
  for (const name of ["value", "checked"]) {
    if (name in node.props && live[name] !== node.props[name]) live[name] = node.props[name];
  }
}

function setProp(live, name, value, before) {
  if (name === "key") return;
  if (name === "style") return setStyle(live, value ?? {}, before ?? {});
  if (name.startsWith("on")) {
    live[name] = value;
    return;
  }
  if (value === before || ((name === "value" || name === "checked") && name in live)) return;
  if (value === null || value === undefined || value === false) live.removeAttribute(name);
  else live.setAttribute(name, value === true ? "" : checked(name, String(value)));
}

function setStyle(live, style, before) {
  for (const name in before) if (!(name in style)) live.style.removeProperty(name);
  for (const name in style) if (style[name] !== before[name]) live.style.setProperty(name, style[name]);
}

/** No name of an object may become a link to another place: links go to views of this page. */
function checked(name, value) {
  if (name === "href" && !value.startsWith("#")) throw new Error("a link must stay on this page");
  return name === "title" || name.startsWith("aria-") ? visible(value) : value;
}
