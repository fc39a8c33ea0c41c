// What the page does beyond its links and forms. Without it everything can still be read and searched.
"use strict";

const announce = (text) => {
  document.getElementById("live").textContent = text;
};

// --- keyboard --------------------------------------------------------------------------------------

const rows = () => [...document.querySelectorAll("[data-row]")];
let selected = null; // the id of a row that has one, or else its place

const select = (place) => {
  const all = rows();
  if (all.length === 0) return;
  const at = Math.max(0, Math.min(place, all.length - 1));
  all.forEach((row) => row.classList.remove("selected"));
  all[at].classList.add("selected");
  const link = all[at].querySelector("a");
  if (link === null) all[at].scrollIntoView({ block: "nearest" });
  else link.focus();
  selected = all[at].id || at;
};

const selectedPlace = () => {
  const all = rows();
  const focused = all.findIndex((row) => row.contains(document.activeElement));
  if (focused >= 0) return focused;
  return typeof selected === "string" ? all.findIndex((row) => row.id === selected) : selected ?? -1;
};

const keys = {
  "/": () => {
    const field = document.getElementById("q") ?? document.getElementById("top-q");
    field?.focus();
    field?.select();
  },
  j: () => select(selectedPlace() + 1),
  k: () => select(selectedPlace() - 1),
  Enter: () => rows()[selectedPlace()]?.querySelector("a")?.click(),
  x: () => {
    const box = rows()[selectedPlace()]?.querySelector("input[type=checkbox]");
    box?.click();
    if (box) announce(box.checked ? "Selected" : "Not selected");
  },
  u: () => document.querySelector(".notice form button")?.click(),
  "?": () => document.getElementById("keys").showModal(),
};

const isTyping = (element) => element.closest("input:not([type=checkbox]), textarea, select, [contenteditable], dialog") !== null;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  // Enter is left to the link or button that has the focus.
  if (event.key === "Enter" && event.target !== document.body) return;
  const act = keys[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});

// --- navigation ------------------------------------------------------------------------------------

// On a narrow screen the views stand in one line, in which this one may be out of sight.
const views = document.querySelector(".side");
if (views !== null && views.scrollWidth > views.clientWidth) {
  const here = views.querySelector("[aria-current]");
  if (here !== null) views.scrollLeft = here.offsetLeft - views.clientWidth / 3;
}

// --- copies ----------------------------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const answer = await fetch(button.dataset.copy);
    await navigator.clipboard.writeText(await answer.text());
    announce("Copied as Markdown");
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}

for (const button of document.querySelectorAll("[data-copy-from]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copyFrom);
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    announce("Copied");
    button.textContent = "Copied";
  });
}

// --- what htmx puts in -----------------------------------------------------------------------------

const messages = document.getElementById("messages");
let read = messages?.children.length;

// The link that asked for them is gone: reading goes on at the first that came.
const readOn = () => {
  announce("More messages are shown");
  messages.children[read]?.querySelector("a").focus({ preventScroll: true });
  read = messages.children.length;
};

document.addEventListener("htmx:after:swap", (event) => {
  if (event.target.id === "messages") readOn();
  if (event.target.id === "feed") {
    announce("Something was stored");
    if (typeof selected === "string") document.getElementById(selected)?.classList.add("selected");
  }
});

for (const [name, isLive] of [["htmx:sse:after:connection", true], ["htmx:sse:error", false], ["htmx:sse:close", false]]) {
  document.addEventListener(name, () => {
    const state = document.getElementById("live-state");
    if (state !== null) state.hidden = !isLive;
  });
}

// --- uploads ---------------------------------------------------------------------------------------

for (const form of document.querySelectorAll("form[data-upload]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [progress, failure, button] = ["progress", ".failure", "button"].map((each) => form.querySelector(each));
    const request = new XMLHttpRequest();
    const fail = (text) => {
      failure.textContent = text;
      failure.hidden = false;
      progress.hidden = true;
      button.disabled = false;
    };
    request.upload.addEventListener("progress", (sent) => {
      if (sent.lengthComputable) progress.value = sent.loaded / sent.total;
    });
    request.addEventListener("load", () => {
      if (request.status < 400) location.assign(request.responseURL);
      else fail(request.response?.detail ?? `The server answered ${request.status}.`);
    });
    request.addEventListener("error", () => fail("The connection was lost; nothing was stored."));
    request.open("POST", form.action);
    // The failure as JSON; and the notice is left for the view that is opened then.
    request.setRequestHeader("Accept", "application/json");
    request.responseType = "json";
    [failure.hidden, progress.hidden, button.disabled] = [true, false, true];
    announce("Sending");
    request.send(new FormData(form));
  });
}
