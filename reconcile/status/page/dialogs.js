// Questions to the reader. `dialog` elements keep the focus inside, and Esc closes them.

import { h, patch } from "./dom.js";

/**
 * Ask for a token; calls `onToken` with what was given, or with "". Nothing happens while one is open already.
 * `wasRefused`: one was given before, and not accepted.
 */
export function askForToken(wasRefused, onToken) {
  if (document.getElementById("token-dialog") !== null) return;
  let token = "";
  const dialog = open("token-dialog", [
    h("h2", {}, "Who are you?"),
    h("p", {}, "The API server decides who may see this page. Give a token that it knows, for example from ",
      h("code", {}, "kubectl create token NAME"), ". It is kept until this page is closed, and stored nowhere."),
    wasRefused && h("p", { class: "bad", role: "alert" }, "The API server did not accept that token, or no longer does."),
    h("label", { for: "token" }, "Token"),
    h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true }),
    buttons("Show the page"),
  ], () => {
    token = dialog.querySelector("input").value.trim().replace(/^Bearer\s+/i, "");
  });
  dialog.addEventListener("close", () => onToken(token));
  dialog.querySelector("input").focus();
}

/** Ask whether to go on; calls `onYes`. */
export function confirmAction(title, words, yes, onYes) {
  open("confirm-dialog", [h("h2", {}, title), h("p", {}, words), buttons(yes)], onYes);
}

const KEYS = [
  ["/", "search the objects"], ["j  k", "next or previous row"], ["Enter", "open the row"], ["Esc", "back"],
  ["1  2  3", "controllers, objects, clusters"], ["t", "light, dark, or as the system"], ["?", "this help"],
];

const MEANINGS = [
  ["failing", "its last run failed, or a condition says that it is broken"],
  ["deleting", "it is being deleted"],
  ["progressing", "not ready yet, or a newer generation is not observed"],
  ["waiting", "it has not run here and says nothing of itself"],
  ["healthy", "ready, or its last run ended well"],
];

export function showHelp() {
  const pair = (tag) => ([name, words]) => [h("dt", {}, h(tag, {}, name)), h("dd", {}, words)];
  const pairs = (rows, tag) => h("dl", { class: "help" }, rows.map(pair(tag)));
  open("help-dialog", [
    h("h2", {}, "Keys"), pairs(KEYS, "kbd"),
    h("h2", {}, "Health"), pairs(MEANINGS, "b"),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Close")),
  ], () => {});
}

function buttons(yes) {
  return h("div", { class: "buttons" },
    h("button", { type: "button", onclick: (event) => event.target.closest("dialog").close() }, "Cancel"),
    h("button", { type: "submit", class: "main" }, yes));
}

function open(id, content, onSubmit) {
  const dialog = document.createElement("dialog");
  dialog.id = id;
  patch(dialog, [h("form", {
    novalidate: true,
    // Nothing is ever sent by a form: the policy of the page forbids it.
    onsubmit: (event) => { event.preventDefault(); onSubmit(); dialog.close(); },
  }, content)]);
  dialog.setAttribute("aria-label", dialog.querySelector("h2").textContent);
  dialog.addEventListener("close", () => dialog.remove());
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
  return dialog;
}
