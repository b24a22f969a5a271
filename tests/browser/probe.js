// SPDX-License-Identifier: Apache-2.0
// probe: what the tests of the page need inside of it. It runs before the page's script, and changes nothing.
"use strict";

window.probe = (() => {
  const seen = new Map(), faults = [];
  const WATCHED = ["#job", "#says", "#contact-text", "#spoken", "#notice", "#cause"];

  const textOf = (selector) => {
    const at = document.querySelector(selector);
    return at && (selector === "#spoken" || at.checkVisibility()) ? at.innerText : "";
  };

  // Notes the texts once they are drawn.
  let isDue = false;
  const note = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      for (const selector of WATCHED) {
        const texts = seen.get(selector) || [], text = textOf(selector);
        if (!texts.length || texts.at(-1).text !== text) texts.push({ at: Date.now(), text });
        seen.set(selector, texts);
      }
    });
  };

  // --- colours ---

  const rgba = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return parts.length === 3 ? [...parts, 1] : parts;
  };
  const over = (top, under) => top.slice(0, 3).map((part, i) => part * top[3] + under[i] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const linear = colour.slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };

  const grey = ([red, green, blue, alpha]) => {
    const level = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    return [level, level, level, alpha];
  };

  // The colour of a text, and what is behind it, as they are drawn: an opacity mixes both with what is further behind.
  const drawn = (element, pseudo) => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.unshift(at);
    let back = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
    let fade = 1, behind = back, isGrey = false;
    for (const at of chain) {
      const style = getComputedStyle(at);
      isGrey ||= style.filter === "grayscale(1)";
      if (Number(style.opacity) < 1) [fade, behind] = [fade * Number(style.opacity), back];
      back = over(rgba(style.backgroundColor), back);
    }
    const text = over(rgba(getComputedStyle(element, pseudo).color), back);
    return [[...text.slice(0, 3), fade], [...back.slice(0, 3), fade]].map((colour) => over(colour, behind))
      .map((colour) => (isGrey ? grey(colour) : colour));
  };

  const isHidden = (element) => !element.checkVisibility({ visibilityProperty: true }) || element.closest(".hidden");

  function* texts() {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode())
      if (node.data.trim() && !["SCRIPT", "NOSCRIPT", "OPTION"].includes(node.parentElement.tagName)
        && !isHidden(node.parentElement)) yield [node.parentElement, node.data.trim()];
    for (const field of document.querySelectorAll("input, select"))
      if (!isHidden(field)) yield [field, field.value || field.placeholder || "field"];
  }

  const low = (least) => {
    const found = [];
    for (const [element, text] of texts()) {
      const pseudo = element.placeholder && !element.value ? "::placeholder" : undefined;
      const ratio = contrast(...drawn(element, pseudo));
      if (ratio < least) found.push(`${ratio.toFixed(2)}: ${element.tagName} ${element.className} ${text.slice(0, 60)}`);
    }
    return found;
  };

  // --- places ---

  // Texts that are cut off at an edge, and elements that are wider than the page. The table may scroll if `canScroll`.
  const cut = (canScroll) => {
    const found = [];
    const wide = document.documentElement.scrollWidth;
    if (wide > window.innerWidth) found.push(`the page is ${wide} px wide, of ${window.innerWidth}`);
    for (const at of document.body.querySelectorAll("*")) {
      const { right } = at.getBoundingClientRect();
      if (right > window.innerWidth + 1 && !isHidden(at) && !at.closest(".scroll"))
        found.push(`outside: ${at.localName}#${at.id}.${at.className}, to ${Math.round(right)} px`);
    }
    for (const [element, text] of texts()) {
      if (element.matches(".skip:not(:focus)")) continue;
      const range = document.createRange();
      range.selectNodeContents(element);
      const own = range.getBoundingClientRect();
      const frame = canScroll && element.closest(".scroll");
      for (let at = element; at && at !== document.body && at !== frame; at = at.parentElement) {
        const { overflowX, overflowY, textOverflow } = getComputedStyle(at), box = at.getBoundingClientRect();
        const isWide = ["hidden", "clip"].includes(overflowX) && own.right > box.right + 1;
        const isHigh = ["hidden", "clip"].includes(overflowY) && own.bottom > box.bottom + 1;
        if (isWide || isHigh || textOverflow === "ellipsis") found.push(`cut in ${at.tagName}: ${text.slice(0, 60)}`);
        if (["auto", "scroll"].includes(overflowX) && at.scrollWidth > at.clientWidth + 1)
          found.push(`scrolls sideways: ${at.tagName} ${at.className}: ${text.slice(0, 40)}`);
      }
      if (!frame && (own.right > window.innerWidth + 1 || own.left < -1)) found.push(`outside: ${text.slice(0, 60)}`);
    }
    return [...new Set(found)];
  };

  // Of each sample in the legend, which pixels have ink that differs from the card: its shape, without colour.
  const shapes = () => [...document.querySelectorAll("#legend li")].map((item) => {
    const canvas = item.querySelector("canvas"), { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const card = rgba(getComputedStyle(document.querySelector("#ranks")).backgroundColor), bits = [];
    for (let i = 0; i < data.length; i += 4)
      bits.push(contrast(over([data[i], data[i + 1], data[i + 2], data[i + 3] / 255], card), card) > 1.7 ? 1 : 0);
    return [item.innerText, bits.join("")];
  });

  // --- the keyboard ---

  // What has the focus, and whether a reader sees that.
  const focused = () => {
    const at = document.activeElement;
    if (at === document.body || at === document.documentElement) return null;
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(at), back = drawn(at.parentElement)[1];
    const { width, left, right, top, bottom } = at.getBoundingClientRect();
    return {
      name: at.id || at.className || at.tagName,
      isFocusVisible: at.matches(":focus-visible"),
      ring: outlineStyle === "none" ? 0 : parseFloat(outlineWidth),
      contrast: contrast(over(rgba(outlineColor), back), back),
      isInView: width > 0 && bottom > 0 && top < window.innerHeight && right > 0 && left < window.innerWidth,
    };
  };

  document.addEventListener("securitypolicyviolation",
    (event) => faults.push(`${event.violatedDirective}: ${event.blockedURI}`));
  window.addEventListener("error", (event) => faults.push(`error: ${event.message}`));
  window.addEventListener("unhandledrejection", (event) => faults.push(`rejection: ${event.reason}`));
  document.addEventListener("DOMContentLoaded", () => {
    note();
    new MutationObserver(note).observe(document.body,
      { subtree: true, childList: true, characterData: true, attributes: true });
  });

  return {
    faults: () => faults, low, cut, shapes, focused,
    history: (selector) => seen.get(selector),
    first: (selector, pattern, since) => {
      const found = (seen.get(selector) || []).find(({ at, text }, i, all) =>
        (all[i + 1] ? all[i + 1].at : Infinity) > since && new RegExp(pattern, "s").test(text));
      return found ? Math.max(found.at, since) : null;
    },
  };
})();
