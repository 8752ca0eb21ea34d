// What a reader would trip over on the page that is shown: a list of sentences, empty if all is
// well. Run in the page by the browser test.
const LEAST_LETTERS = matchMedia("print").matches ? 7 : 9;
const found = [];
const say = (text) => { if (found.length < 20) found.push(text); };
const shown = (node) => node.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
const all = (query) => [...document.querySelectorAll(query)].filter(shown);
const brief = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute("class") || ""} “${node.textContent.trim().slice(0, 40)}”`;

// Nothing is wider than the page, nor cut off.
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > width) say(`the page is ${document.documentElement.scrollWidth} px wide in ${width}`);
const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
const inScroller = (node) => {
  for (let up = node.parentElement; up; up = up.parentElement) if (scrolls(up)) return true;
  return false;
};
const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
const texts = all("body *").filter((node) => hasText(node) && !["TITLE", "DESC", "SCRIPT", "STYLE"].includes(node.tagName) && !node.closest(".unseen, .skip:not(:focus)"));
for (const node of texts) {
  const box = node.getBoundingClientRect();
  if (!inScroller(node) && (box.left < -1 || box.right > width + 1)) say(`${brief(node)} leaves the page`);
  const style = getComputedStyle(node);
  if (node instanceof HTMLElement && !scrolls(node) && style.overflowX !== "visible" && node.scrollWidth > node.clientWidth + 1) say(`${brief(node)} is cut off`);
}

// Texts of a picture stay inside it and do not lie on each other.
for (const picture of all("figure svg")) {
  const frame = picture.closest("figure").getBoundingClientRect();
  const size = 11 * picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
  if (size < LEAST_LETTERS || size > 15) say(`the letters of ${picture.getAttribute("aria-labelledby")} are ${size.toFixed(1)} px`);
  const boxes = [...picture.querySelectorAll("text")].map((node) => [node, node.getBoundingClientRect()]);
  for (const [index, [node, box]] of boxes.entries()) {
    if (box.left < frame.left - 1 || box.right > frame.right + 1) say(`${brief(node)} leaves its picture`);
    for (const [other, its] of boxes.slice(index + 1)) {
      const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (across > 1 && down > 3) say(`${brief(node)} lies on ${brief(other)}`);
    }
  }
}

// Text stands out from what is behind it.
const parse = (colour) => {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  const scale = colour.startsWith("color(") ? 255 : 1;
  return [...numbers.slice(0, 3).map((value) => value * scale), numbers[3] ?? 1];
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (node) => {
  for (let up = node; up; up = up.parentElement) {
    const [r, g, b, alpha] = parse(getComputedStyle(up).backgroundColor);
    if (alpha === 1) return [r, g, b];
  }
  return [255, 255, 255];
};
const contrast = (node, pseudo) => {
  const style = getComputedStyle(node, pseudo);
  const front = luminance(parse(node instanceof SVGElement ? style.fill : style.color).slice(0, 3));
  const back = luminance(behind(node));
  return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
};
const poor = new Map();
const judge = (node, pseudo) => {
  const style = getComputedStyle(node);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const ratio = contrast(node, pseudo);
  if (ratio < (large ? 3 : 4.5)) poor.set(`${node.tagName}.${node.getAttribute("class")}`, `${brief(node)} has contrast ${ratio.toFixed(2)}`);
};
for (const node of texts) judge(node, null);
for (const node of all("input")) judge(node, "::placeholder");
for (const text of poor.values()) say(text);

// What a screen reader and a keyboard need.
if (!document.documentElement.lang) say("the page has no language");
for (const [query, count] of [["main", 1], ["h1", 1], ["header", 1], ["footer", 1], ["nav[aria-label]", 1]]) {
  if (all(query).length !== count) say(`there are ${all(query).length} of ${query}`);
}
let level = 0;
for (const head of all("h1, h2, h3, h4, h5, h6")) {
  const own = Number(head.tagName[1]);
  if (own > level + 1) say(`${brief(head)} skips a level`);
  level = own;
}
const named = (node) => (node.getAttribute("aria-label") || node.textContent).trim();
for (const node of all("a, button, summary")) if (!named(node)) say(`${node.outerHTML.slice(0, 80)} has no name`);
for (const node of all("input, select, textarea")) if (!node.labels.length && !node.getAttribute("aria-label")) say("an input has no label");
for (const node of all("img")) if (!node.alt) say("an image has no alternative");
for (const node of all("svg")) {
  if (node.getAttribute("aria-hidden") === "true") continue;
  const ids = (node.getAttribute("aria-labelledby") || "").split(" ");
  if (node.getAttribute("role") !== "img" || !ids.every((id) => document.getElementById(id)?.textContent.trim())) say(`a picture has no alternative: ${ids}`);
}
for (const node of all("table")) {
  if (!node.caption?.textContent.trim()) say("a table has no caption");
  if ([...node.tHead.querySelectorAll("th")].some((head) => head.scope !== "col")) say(`${brief(node.caption)}: a head has no scope`);
  if ([...node.tBodies[0].rows].some((row) => row.cells[0].scope !== "row")) say(`${brief(node.caption)}: a row has no head`);
  if ([...node.tHead.rows[0].cells].filter((head) => head.ariaSort).length > 1) say(`${brief(node.caption)}: sorted twice`);
}
const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
if (new Set(ids).size !== ids.length) say("an id is there twice");
for (const node of document.querySelectorAll("[tabindex]")) if (node.tabIndex > 0) say("a tabindex is above 0");
for (const node of all(".scroll, pre")) if (node.scrollWidth > node.clientWidth + 1 && node.tabIndex !== 0) say(`${brief(node)} scrolls, but not by keyboard`);
for (const link of all('a[href^="#"]')) if (!document.getElementById(link.hash.slice(1))) say(`${brief(link)} leads nowhere`);
return found;
