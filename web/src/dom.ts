// Small helpers for elements. Text is always set as text: nothing of a transcript is ever read as HTML.

type Child = Node | string | null;

/** Return a new element with attributes ("" sets one that has no value; undefined leaves it out) and children. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, string | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Drawn on 24 by 24, in the colour of the text.
const ICONS: Record<string, string> = {
  play: "M7 4.5v15l12-7.5z", pause: "M8 5v14M16 5v14", previous: "M15 5l-7 7 7 7", next: "M9 5l7 7-7 7",
  undo: "M8 14L3.5 9.5 8 5M4 9.5h10a5.5 5.5 0 0 1 0 11h-3", redo: "M16 14l4.5-4.5L16 5M20 9.5H10a5.5 5.5 0 0 0 0 11h3",
  save: "M12 4v11M7 10.5l5 5 5-5M4.5 20h15", more: "M5 12h.01M12 12h.01M19 12h.01", plus: "M12 5v14M5 12h14", minus: "M5 12h14",
  theme: "M12 3.5a8.5 8.5 0 1 0 0 17zM12 3.5a8.5 8.5 0 0 1 0 17", check: "M5 12.5l4.5 4.5L19 7.5", fit: "M4 6v12M20 6v12M8 12h8M10 9.5L7.5 12l2.5 2.5M14 9.5l2.5 2.5-2.5 2.5", box: "M5 5h14v14H5z", ticked: "M5 5h14v14H5zM8 12l3 3 5-6",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.1-1.5 2.4M12 18.5h.01", close: "M6 6l12 12M18 6L6 18",
};

function icon(name: string): SVGElement {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawn.setAttribute("viewBox", "0 0 24 24");
  drawn.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(drawn.namespaceURI, "path") as SVGPathElement;
  path.setAttribute("d", ICONS[name]);
  drawn.append(path);
  return drawn;
}

/** Show icons, as ":play", and words on a button; a text that comes from elsewhere is never looked through for icons. */
export function show(on: HTMLButtonElement, shown: string | readonly string[]): void {
  const parts = typeof shown === "string" ? [shown] : shown.map((part) => (part.startsWith(":") ? icon(part.slice(1)) : element("span", {}, part)));
  on.replaceChildren(...parts);
}

/** Return a button that shows `shown`, says `label`, in which its words must be, where it is read aloud, and names its key. */
export function button(id: string, shown: string | readonly string[], label: string, key: string, pressed: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", "data-testid": id, "aria-label": label, title: key ? `${label} (${key})` : label });
  show(made, shown);
  made.addEventListener("click", pressed);
  return made;
}

/** Run `work` once before the next frame, however often it is asked for. */
export function onceAFrame(work: () => void): () => void {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      work();
    });
  };
}
