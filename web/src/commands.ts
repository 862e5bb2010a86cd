// What keys do; the help is made from the same list.

export interface Command {
  /** Keys as `keyName` names them; the first is shown. */
  keys: readonly string[];
  what: string;
  group: "Listen" | "Move" | "View" | "Correct" | "Save and help";
  run: () => void;
}

/** Return the name of a pressed key: "Ctrl+Shift+z", "ArrowLeft", " ", "?". */
export function keyName(event: KeyboardEvent): string {
  const isGraph = event.getModifierState("AltGraph"); // "[" needs it on many keyboards
  const control = (event.ctrlKey || event.metaKey) && !isGraph ? "Ctrl+" : "";
  const alt = event.altKey && !isGraph ? "Alt+" : "";
  const isLetter = event.key.length === 1;
  const shift = event.shiftKey && (!isLetter || control) ? "Shift+" : "";
  return control + alt + shift + (isLetter ? event.key.toLowerCase() : event.key);
}

const SHOWN: Record<string, string> = {
  " ": "Space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", Delete: "Del",
};

/** Return a key's name for people. */
export function shownKey(key: string): string {
  return key.split(/(?<=.)\+/).map((part) => SHOWN[part] ?? (part.length === 1 ? part.toUpperCase() : part)).join(" + ");
}

/** Run the command of a key, unless it is meant for a field of text or a control. */
export function listenToKeys(commands: readonly Command[]): void {
  const byKey = new Map(commands.flatMap((command) => command.keys.map((key) => [key, command] as const)));
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (target.closest("input, select, textarea, dialog[open]")) return;
    const name = keyName(event);
    if ((name === " " || name === "Enter") && target.closest("button, a")) return;
    const command = byKey.get(name);
    if (!command) return;
    event.preventDefault();
    command.run();
  });
}
