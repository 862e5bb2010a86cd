// Colours of what is drawn, light and dark, and which of them holds.

export interface Theme {
  dark: boolean;
  ground: string;
  lane: string;
  line: string;
  text: string;
  faint: string;
  wave: string;
  accent: string;
  doubt: string;
  selection: string;
  /** Of the overview, what is in view. */
  shade: string;
  spread: string;
  model: string;
  hand: string;
  unexplained: string;
  misfit: string;
  /** Fills of words from sure to doubtful. */
  confidence: readonly (readonly [number, string])[];
  spectrogram: readonly (readonly number[])[];
}

export const LIGHT: Theme = {
  dark: false,
  ground: "#ffffff",
  lane: "#f4f6f9",
  line: "#cfd6df",
  text: "#1a2330",
  faint: "#566273",
  wave: "#4a6076",
  accent: "#0b5fb8",
  doubt: "#c2500a",
  selection: "rgba(11, 95, 184, 0.16)",
  shade: "rgba(26, 35, 48, 0.13)",
  spread: "rgba(20, 70, 140, 0.16)",
  model: "#6a3fc0",
  hand: "#6a3fc0",
  unexplained: "rgba(230, 119, 0, 0.15)",
  misfit: "rgba(201, 42, 42, 0.10)",
  confidence: [
    [0.9, "#dcebf7"],
    [0.7, "#f4eccb"],
    [0.5, "#ffdf9e"],
    [0.3, "#ffc078"],
    [0, "#ff9d8f"],
  ],
  spectrogram: [
    [255, 255, 255],
    [232, 234, 240],
    [160, 168, 184],
    [74, 82, 104],
    [12, 16, 30],
  ],
};

export const DARK: Theme = {
  dark: true,
  ground: "#12161d",
  lane: "#181d26",
  line: "#36404f",
  text: "#e6ebf2",
  faint: "#a0acbd",
  wave: "#8fa6bf",
  accent: "#6cb0ff",
  doubt: "#ffa566",
  selection: "rgba(108, 176, 255, 0.22)",
  shade: "rgba(230, 235, 242, 0.18)",
  spread: "rgba(130, 180, 255, 0.20)",
  model: "#b79bff",
  hand: "#b79bff",
  unexplained: "rgba(255, 169, 77, 0.16)",
  misfit: "rgba(255, 107, 107, 0.14)",
  confidence: [
    [0.9, "#22405c"],
    [0.7, "#55512c"],
    [0.5, "#705518"],
    [0.3, "#8a4a16"],
    [0, "#94302c"],
  ],
  spectrogram: [
    [18, 22, 29],
    [32, 36, 72],
    [98, 52, 122],
    [220, 96, 92],
    [255, 224, 150],
    [255, 255, 240],
  ],
};

/** Return the colour of a word or token by how sure its place is. */
export function colourOf(theme: Theme, confidence: number | null): string {
  const sure = confidence ?? 1;
  for (const [least, colour] of theme.confidence) if (sure >= least) return colour;
  return theme.confidence[theme.confidence.length - 1][1];
}

export type ThemeChoice = "auto" | "light" | "dark";

export function themeOf(choice: ThemeChoice): Theme {
  const dark = choice === "dark" || (choice === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  return dark ? DARK : LIGHT;
}
