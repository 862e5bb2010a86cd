// The page: its parts, its toolbar, its keys, and the loop that follows what is played.

import { AlignAgain } from "./align-again";
import { Autosave } from "./autosave";
import { type Command, listenToKeys } from "./commands";
import type { PageData } from "./data";
import { button, element, onceAFrame, show } from "./dom";
import { Headline } from "./header";
import { helpDialog } from "./help";
import { Inspector } from "./inspector";
import { Mending } from "./mending-controls";
import { Overview } from "./overview";
import { PageState } from "./page-state";
import { clock } from "./painting";
import { ratingInWords, type Scale, stepNames } from "./ratings";
import { SaveMenu } from "./save-menu";
import { NARROW_S, WIDE_S } from "./spectrogram";
import { Stage } from "./stage";
import { type Theme, themeOf } from "./theme";
import { Transcript } from "./transcript";

const KEPT_FRAMES = 600;
const FIRST_PX_PER_S = 95;

export class Page {
  readonly state: PageState;
  readonly stage: Stage;
  private readonly overview: Overview;
  private readonly transcript: Transcript;
  private readonly inspector: Inspector;
  private readonly mending: Mending;
  private readonly autosave: Autosave;
  private readonly saveMenu: SaveMenu;
  private readonly alignAgain: AlignAgain;
  private readonly headline: Headline;
  private readonly notice = element("div", { class: "notice", "data-testid": "notice", hidden: "" });
  private readonly unseen = element("div", { class: "notice", role: "note", "data-testid": "unseen", hidden: "" });
  /** What the colours of pronunciation mean. */
  private readonly legend = element("div", { class: "legend", role: "note", "data-testid": "legend", hidden: "" });
  private explained: { scale: Scale; theme: Theme } | null = null;
  private readonly lower = element("div", { class: "lower" });
  private readonly bar = element("div", { class: "toolbar", role: "toolbar", "aria-label": "Controls" });
  private readonly saving = element("span", { class: "group" });
  private readonly rest = element("div", { class: "rest" });
  /** On a telephone, what is not in reach of the thumb. */
  private readonly sheet = element("section", { class: "sheet", id: "sheet", "aria-label": "More controls", "data-testid": "sheet", hidden: "" });
  private readonly said = element("div", { class: "said", "data-testid": "said", hidden: "" });
  private hush = 0;
  private readonly spoken = element("div", { class: "spoken", role: "status", "aria-live": "polite", "data-testid": "spoken" });
  private readonly time = element("span", { class: "time", "data-testid": "time" });
  private readonly help: HTMLDialogElement;
  private readonly buttons: Record<string, HTMLButtonElement> = {};
  private readonly frames: number[] = [];
  private playing = -1;
  private lastFrame = 0;

  constructor(root: HTMLElement, data: PageData) {
    this.state = new PageState(data);
    this.stage = new Stage(this.state);
    this.overview = new Overview(this.state);
    this.transcript = new Transcript(this.state);
    const say = (text: string) => this.say(text);
    this.mending = new Mending(this.state, say, (isNew) => this.inspector.edit(isNew));
    this.stage.edges = this.mending;
    this.inspector = new Inspector(this.state, this.mending, () => this.stage.root.focus({ preventScroll: true }));
    this.autosave = new Autosave(this.state.words, data);
    this.saveMenu = new SaveMenu(this.state, this.autosave, say);
    this.alignAgain = new AlignAgain(this.state, say);
    const commands = [...this.commands(), ...this.mending.commands(), ...this.alignAgain.commands(), ...this.saveMenu.commands()];
    this.headline = new Headline(this.state, this.chooseDoubt());
    this.help = helpDialog(commands);
    root.textContent = "";
    root.append(
      element("header", {}, this.headline.root),
      element("main", {}, this.notice, this.unseen, this.overview.root, element("div", { class: "stage-row" }, this.stage.axis, this.stage.root), this.legend, this.toolbar(), this.lower, this.sheet, this.said),
      this.spoken,
      this.help,
    );
    this.listen();
    listenToKeys(commands);
    this.applyTheme();
    this.expose();
    this.restore();
    this.state.sound.open();
    this.state.view.set(0, Math.max(4, window.innerWidth / FIRST_PX_PER_S));
    this.stage.root.focus({ preventScroll: true, focusVisible: false } as FocusOptions);
    document.body.dataset.ready = "true";
    requestAnimationFrame((now) => this.frame(now));
  }

  private listen(): void {
    const { state } = this;
    const shown = onceAFrame(() => {
      this.transcript.mark();
      this.inspector.show();
      this.headline.show();
      this.showControls();
    });
    let announced = "";
    state.onChange(() => {
      shown();
      const word = state.word;
      const token = word?.tokens[state.token];
      const text = token ? ratingInWords(token) || token.token : word ? Transcript.spoken(word) : "";
      if (text !== announced) this.spoken.textContent = announced = text;
    });
    state.words.onChange(() => {
      this.transcript.show();
      this.overview.drawMarks();
      this.showLegend();
    });
    state.player.onChange(() => {
      this.showControls();
      this.stage.placeCursor();
    });
    state.sound.onChange(() => this.showControls());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.applyTheme());
    const narrow = matchMedia("(max-width: 720px)");
    const arrange = () => {
      this.lower.append(this.transcript.root);
      (narrow.matches ? this.sheet : this.lower).append(this.inspector.root);
      (narrow.matches ? this.sheet : this.bar).append(this.rest);
      (narrow.matches ? this.rest : this.saving).prepend(this.buttons.checked);
    };
    narrow.addEventListener("change", arrange);
    arrange();
    this.sheet.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.openSheet(false);
    });
    this.showControls();
  }

  private openSheet(opens: boolean): void {
    this.sheet.hidden = !opens;
    this.buttons.more.setAttribute("aria-expanded", String(opens));
    show(this.buttons.more, opens ? [":close", "More"] : [":more", "More"]);
    (opens ? this.sheet.querySelector("button") : this.buttons.more)?.focus();
  }

  /** Light up what is spoken, keep it in view, and note how long frames take; called for every frame. */
  private frame(now: number): void {
    requestAnimationFrame((next) => this.frame(next));
    if (this.lastFrame) {
      this.frames.push(now - this.lastFrame);
      if (this.frames.length > KEPT_FRAMES) this.frames.shift();
    }
    this.lastFrame = now;
    const { player, words, view } = this.state;
    player.watch();
    const isPlaying = player.isPlaying;
    const place = isPlaying ? words.at(player.time) : -1;
    if (place !== this.playing) {
      this.playing = place;
      this.transcript.light(place);
    }
    if (!isPlaying) return;
    const time = player.time;
    if (this.state.follows && (time > view.start + 0.92 * view.span || time < view.start) && view.span < view.duration) {
      view.set(time - 0.08 * view.span, time + 0.92 * view.span);
    }
    this.placeCursors();
  }

  private placeCursors(): void {
    this.stage.placeCursor();
    this.overview.placeCursor();
    this.time.textContent = clock(this.state.player.time, 0.01);
  }

  private applyTheme(): void {
    this.state.theme = themeOf(this.state.data.theme);
    this.stage.spectrogram.setColours(this.state.theme.spectrogram);
    this.overview.show();
    this.showLegend();
    this.state.tell();
  }

  private showLegend(): void {
    const { showsRatings, ratingScale: scale, theme } = this.state;
    this.legend.hidden = !showsRatings;
    if (!scale || (this.explained?.scale === scale && this.explained.theme === theme)) return;
    this.explained = { scale, theme };
    const steps = stepNames(scale).map((name, step) => element("span", {}, element("i", { style: `background:${theme.confidence[step][1]}` }), name));
    this.legend.replaceChildren(element("span", {}, scale.title), ...steps, element("span", {}, "A word shows its lowest sound. TH→S: S was heard; ∅: left out."));
  }

  private toggleRatings(): void {
    const { state } = this;
    if (!state.ratingScale) return this.say("Aligned without --gop: no sound is rated.");
    state.wantsRatings = !state.wantsRatings;
    this.transcript.dressAll();
    this.showLegend();
    state.tell();
    this.say(`Colours show ${state.showsRatings ? "pronunciation" : "confidence"}.`);
  }

  private chooseDoubt(): HTMLElement {
    const { state } = this;
    const below = element(
      "select",
      { "data-testid": "doubt-below", title: "Words below this confidence are doubtful" },
      ...[0.3, 0.5, 0.7, 0.9].map((of) => element("option", { value: String(of), selected: of === state.doubtBelow ? "" : undefined }, `${of}`)),
    );
    below.addEventListener("change", () => {
      state.setDoubtBelow(Number(below.value));
      this.transcript.dressAll();
      this.overview.drawMarks();
    });
    return element("label", {}, "to check: below a confidence of ", below);
  }

  private toolbar(): HTMLElement {
    const { state } = this;
    const add = (id: string, text: string | readonly string[], label: string, key: string, run: () => void) => {
      this.buttons[id] = button(id, text, label, key, () => {
        run();
        this.stage.root.focus({ preventScroll: true });
      });
      return this.buttons[id];
    };
    const group = (...children: (HTMLElement | null)[]) => element("span", { class: "group" }, ...children);
    const iconOnly = (of: HTMLButtonElement) => {
      of.classList.add("icon-only");
      return of;
    };
    const play = iconOnly(add("play", [":play", "Play"], "Play or pause", "Space", () => this.toggle()));
    play.classList.add("main");
    const more = button("more", [":more", "More"], "More controls", "", () => this.openSheet(this.sheet.hidden !== false));
    more.classList.add("more");
    more.setAttribute("aria-controls", "sheet");
    more.setAttribute("aria-expanded", "false");
    this.buttons.more = more;
    this.rest.append(
      group(
        iconOnly(add("previous", [":previous", "Word"], "Previous word", "←", () => state.move(-1))),
        add("play-word", [":play", "Word"], "Play the selected word", "Enter", () => state.playSelected()),
        iconOnly(add("next", [":next", "Word"], "Next word", "→", () => state.move(1))),
        add("loop", "Loop", "Loop: repeat the selected word", "L", () => this.loop()),
        add("half", "Slow", "Slow: half speed", "H", () => this.half()),
      ),
      group(
        iconOnly(add("zoom-out", [":minus", "Zoom out"], "Zoom out", "-", () => state.view.zoom(1.6, this.anchor()))),
        iconOnly(add("zoom-in", [":plus", "Zoom in"], "Zoom in", "+", () => state.view.zoom(1 / 1.6, this.anchor()))),
        iconOnly(add("zoom-word", [":fit", "Selection"], "Selection: fill the view with it", "Z", () => this.zoomToSelected())),
        add("zoom-all", "All", "All of the recording in view", "0", () => state.view.set(0, state.view.duration)),
      ),
      group(
        add("ratings", "Pronunciation", "Pronunciation: colours show it in place of confidence", "V", () => this.toggleRatings()),
        add("snap", "Snap", "Snap: dragged edges go to zero crossings", "G", () => this.mending.toggleSnap()),
        this.alignAgain.root,
      ),
      group(
        add("recording", "Recording", "Open the recording from a file", "", () => this.openRecording()),
        iconOnly(add("theme", [":theme", "Light or dark"], "Light or dark", "D", () => this.changeTheme())),
        iconOnly(add("help-open", [":help", "All keys"], "All keys", "?", () => this.help.showModal())),
      ),
    );
    const primary = group(
      group(
        add("doubt-previous", [":previous", "Doubtful"], "Previous doubtful passage", "P", () => this.doubt(-1)),
        play,
        this.time,
        add("doubt-next", ["Doubtful", ":next"], "Next doubtful passage", "N", () => this.doubt(1)),
      ),
      group(
        iconOnly(add("undo", [":undo", "Undo"], "Undo", "Ctrl + Z", () => this.mending.step(true))),
        iconOnly(add("redo", [":redo", "Redo"], "Redo", "Ctrl + Shift + Z", () => this.mending.step(false))),
      ),
      this.saving,
    );
    add("checked", [":box", "Checked"], "Checked: this recording is looked through", "C", () => this.mending.toggleChecked());
    this.saving.append(this.saveMenu.root, more);
    primary.className = "primary";
    this.bar.append(primary);
    return this.bar;
  }

  private showControls(): void {
    const { player, sound, doubts, words } = this.state;
    const { buttons } = this;
    show(buttons.play, player.isPlaying ? [":pause", "Pause"] : [":play", "Play"]);
    buttons.play.setAttribute("aria-pressed", String(player.isPlaying));
    buttons.loop.setAttribute("aria-pressed", String(player.loop));
    buttons.half.setAttribute("aria-pressed", String(player.speed !== 1));
    for (const id of ["play", "play-word"]) buttons[id].disabled = !sound.isThere;
    buttons.recording.style.display = sound.trouble || sound.unseen ? "" : "none";
    this.unseen.hidden = sound.unseen === "";
    this.unseen.textContent = sound.unseen;
    buttons.undo.disabled = !words.canUndo;
    buttons.redo.disabled = !words.canRedo;
    buttons.ratings.hidden = this.state.ratingScale === null;
    buttons.ratings.setAttribute("aria-pressed", String(this.state.showsRatings));
    buttons.snap.setAttribute("aria-pressed", String(this.state.snaps));
    show(buttons.checked, [words.version.checked ? ":ticked" : ":box", "Checked"]);
    buttons.checked.setAttribute("aria-pressed", String(words.version.checked));
    const none = doubts.length === 0;
    buttons["doubt-next"].disabled = buttons["doubt-previous"].disabled = none;
    buttons["doubt-next"].title = none ? "No doubtful passages" : `Next of ${doubts.length} doubtful passages (N)`;
    document.body.dataset.samples = String(sound.hasSamples);
    this.placeCursors();
  }

  private commands(): Command[] {
    const { state } = this;
    return [
      { keys: [" "], what: "Play from the cursor, or pause", group: "Listen", run: () => this.toggle() },
      { keys: ["Enter"], what: "Play the selected word, phone or stretch", group: "Listen", run: () => state.playSelected() },
      { keys: ["l"], what: "Repeat the selected word", group: "Listen", run: () => this.loop() },
      { keys: ["h"], what: "Half speed", group: "Listen", run: () => this.half() },
      { keys: ["ArrowLeft"], what: "Previous word or phone", group: "Move", run: () => state.move(-1) },
      { keys: ["ArrowRight"], what: "Next word or phone", group: "Move", run: () => state.move(1) },
      { keys: ["ArrowDown"], what: "From the word to its phones", group: "Move", run: () => this.toTokens() },
      { keys: ["ArrowUp"], what: "From phones back to the word", group: "Move", run: () => state.select(state.selected) },
      { keys: ["Home"], what: "First word", group: "Move", run: () => state.select(state.words.order[0] ?? -1) },
      { keys: ["End"], what: "Last word", group: "Move", run: () => state.select(state.words.order[state.words.order.length - 1] ?? -1) },
      { keys: ["n"], what: "Next doubtful passage", group: "Move", run: () => this.doubt(1) },
      { keys: ["p"], what: "Previous doubtful passage", group: "Move", run: () => this.doubt(-1) },
      { keys: ["+", "="], what: "Zoom in", group: "View", run: () => state.view.zoom(1 / 1.6, this.anchor()) },
      { keys: ["-", "_"], what: "Zoom out", group: "View", run: () => state.view.zoom(1.6, this.anchor()) },
      { keys: ["z"], what: "Zoom to the selection", group: "View", run: () => this.zoomToSelected() },
      { keys: ["0"], what: "Show the whole recording", group: "View", run: () => state.view.set(0, state.view.duration) },
      { keys: ["PageUp"], what: "Scroll back", group: "View", run: () => state.view.scroll(-0.8 * state.view.span) },
      { keys: ["PageDown"], what: "Scroll on", group: "View", run: () => state.view.scroll(0.8 * state.view.span) },
      { keys: ["w"], what: "Wide-band or narrow-band spectrogram", group: "View", run: () => this.changeWindow() },
      { keys: ["v"], what: "Colours of pronunciation or of confidence", group: "View", run: () => this.toggleRatings() },
      { keys: ["d"], what: "Light or dark", group: "View", run: () => this.changeTheme() },
      { keys: ["Escape"], what: "Clear the selected stretch; stop", group: "View", run: () => this.escape() },
      { keys: ["?"], what: "Show this list", group: "Save and help", run: () => this.help.showModal() },
    ];
  }

  private toggle(): void {
    this.state.follows = true;
    this.state.player.toggle();
  }

  private loop(): void {
    const { player } = this.state;
    player.setLoop(!player.loop);
    if (player.loop) this.state.playSelected();
  }

  private half(): void {
    const { player } = this.state;
    player.setSpeed(player.speed === 1 ? 0.5 : 1);
  }

  private doubt(step: 1 | -1): void {
    const doubt = this.state.moveToDoubt(step);
    if (!doubt) this.say("There are no doubtful passages.");
    else {
      const { words, doubts } = this.state;
      this.say(`${words.list[doubt.place]?.text ?? "Region"}: ${doubt.why}, passage ${doubts.indexOf(doubt) + 1} of ${doubts.length}`);
    }
  }

  /** Say something aloud to screen readers, and show it for a while. */
  private say(text: string): void {
    if (!text) return;
    this.spoken.textContent = text;
    this.said.textContent = text;
    this.said.hidden = false;
    clearTimeout(this.hush);
    this.hush = window.setTimeout(() => {
      this.said.hidden = true;
    }, 3500);
  }

  /** Bring back what was mended here before, and offer to discard it. */
  private restore(): void {
    const at = this.autosave.restore();
    if (at === null) return;
    this.notice.hidden = false;
    const close = () => {
      this.notice.hidden = true;
      this.stage.root.focus({ preventScroll: true });
    };
    this.notice.append(
      element("span", {}, `Your corrections of ${new Date(at).toLocaleString()} were restored.`),
      button("notice-discard", "Discard", "Discard the corrections", "", () => {
        this.autosave.discard();
        this.state.words.undo();
        close();
      }),
      button("notice-keep", "Keep", "Keep the corrections", "", close),
    );
  }

  private toTokens(): void {
    if (this.state.word?.tokens.length) this.state.select(this.state.selected, Math.max(0, this.state.token));
  }

  /** What stays where it is while one zooms by key. */
  private anchor(): number {
    const { view, span, player } = this.state;
    const time = span ? (span.start + span.end) / 2 : player.time;
    return time >= view.start && time <= view.end ? time : (view.start + view.end) / 2;
  }

  private zoomToSelected(): void {
    const span = this.state.stretch ?? this.state.span;
    if (!span) return;
    const margin = 0.5 * (span.end - span.start) + 0.01;
    this.state.view.set(span.start - margin, span.end + margin);
  }

  private changeTheme(): void {
    this.state.data.theme = this.state.theme.dark ? "light" : "dark";
    this.applyTheme();
  }

  private changeWindow(): void {
    const { spectrogram } = this.stage;
    spectrogram.window = spectrogram.window === WIDE_S ? NARROW_S : WIDE_S;
    this.stage.draw();
  }

  private escape(): void {
    this.state.stretch = null;
    this.state.player.pause();
    this.state.tell();
  }

  private openRecording(): void {
    const input = element("input", { type: "file", accept: "audio/*,video/*" });
    input.addEventListener("change", () => {
      if (input.files?.[0]) this.state.sound.take(input.files[0]);
    });
    input.click();
  }

  /** Offer what tests and scripts may read. */
  private expose(): void {
    const { state } = this;
    const page = this;
    const readings = {
      get ready() { return state.sound.hasSamples || state.sound.levels.length > 0; },
      get hasSamples() { return state.sound.hasSamples; },
      get time() { return state.player.time; },
      get isPlaying() { return state.player.isPlaying; },
      get playing() { return page.playing; },
      get selected() { return state.selected; },
      get token() { return state.token; },
      get side() { return state.side; },
      get view() { return { start: state.view.start, end: state.view.end, pxPerS: state.view.pxPerS }; },
      get stretch() { return state.stretch && { ...state.stretch }; },
      get duration() { return state.view.duration; },
      get lanes() { return page.stage.lanes.map((lane) => ({ ...lane })); },
      get words() {
        return state.words.list.map((word) => ({
          text: word.text, start: word.start, end: word.end, status: word.status, byHand: word.byHand,
          tokens: word.tokens.map(({ token, start, end }) => ({ token, start, end })),
        }));
      },
      get doubts() { return state.doubts.map((doubt) => ({ ...doubt })); },
      get frameTimes() { return [...page.frames]; },
    };
    Object.defineProperty(window, "ctcAlignPage", { value: Object.freeze(readings) });
  }
}
