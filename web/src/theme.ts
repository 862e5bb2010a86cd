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
  selection: string;
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
  lane: "#f6f7f9",
  line: "#d5dae1",
  text: "#1b2430",
  faint: "#6a7686",
  wave: "#3b6ea5",
  accent: "#d6336c",
  selection: "rgba(214, 51, 108, 0.14)",
  spread: "rgba(20, 70, 140, 0.16)",
  model: "#8a63d2",
  hand: "#7048c6",
  unexplained: "rgba(230, 119, 0, 0.20)",
  misfit: "rgba(201, 42, 42, 0.16)",
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
  line: "#2c3442",
  text: "#e6ebf2",
  faint: "#8d9aac",
  wave: "#6cb2f0",
  accent: "#ff6b9d",
  selection: "rgba(255, 107, 157, 0.18)",
  spread: "rgba(130, 180, 255, 0.20)",
  model: "#b79bff",
  hand: "#b79bff",
  unexplained: "rgba(255, 169, 77, 0.20)",
  misfit: "rgba(255, 107, 107, 0.20)",
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
