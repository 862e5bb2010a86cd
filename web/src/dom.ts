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

/** Return a button that shows `text`, says `label` where it is read aloud, and names its key. */
export function button(id: string, text: string, label: string, key: string, pressed: () => void): HTMLButtonElement {
  const title = key ? `${label} (${key})` : label;
  const made = element("button", { type: "button", "data-testid": id, "aria-label": title, title }, text);
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
