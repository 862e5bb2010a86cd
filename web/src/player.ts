// Plays: from a place on by the <audio> element; a stretch, to the sample where it is decoded, by Web Audio.

import type { Sound } from "./sound";
import type { Span } from "./words";

export class Player {
  private context: AudioContext | null = null;
  private source: AudioBufferSourceNode | null = null;
  private began = 0;
  private stretch: Span | null = null;
  private at = 0;
  private isOwnPause = false;
  private readonly heard: (() => void)[] = [];
  speed = 1;
  loop = false;

  constructor(private readonly sound: Sound) {
    for (const event of ["play", "pause", "ended", "seeked"]) {
      sound.media.addEventListener(event, () => {
        // What stops the recording but this page, as a key of the keyboard for media, leaves the cursor where it stops.
        if ((event === "pause" || event === "ended") && !this.isOwnPause && !this.source) this.at = this.mediaTime();
        if (event === "pause") this.isOwnPause = false;
        this.tell();
      });
    }
  }

  onChange(listener: () => void): void {
    this.heard.push(listener);
  }

  private tell(): void {
    for (const listener of this.heard) listener();
  }

  private mediaTime(): number {
    return this.sound.media.currentTime - this.sound.startsAt;
  }

  get isPlaying(): boolean {
    return this.source !== null || !this.sound.media.paused;
  }

  /** Seconds of the utterance: what is heard now, else where playing goes on. */
  get time(): number {
    if (this.source && this.context && this.stretch) {
      const since = Math.max(0, this.context.currentTime - (this.context.outputLatency || 0) - this.began);
      const length = this.stretch.end - this.stretch.start;
      return this.stretch.start + (this.loop ? since % length : Math.min(since, length));
    }
    return this.sound.media.paused ? this.at : this.mediaTime();
  }

  /** Put the cursor somewhere; what plays goes on from there. */
  seek(time: number): void {
    const wasPlaying = !this.sound.media.paused;
    this.endStretch();
    this.at = Math.min(Math.max(0, time), this.sound.duration);
    if (this.sound.isThere) this.sound.media.currentTime = this.at + this.sound.startsAt;
    if (wasPlaying) this.stretch = null;
    this.tell();
  }

  toggle(): void {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  /** Play from the cursor to the end. */
  play(): void {
    if (!this.sound.isThere) return;
    this.endStretch();
    this.stretch = null;
    if (this.at >= this.sound.duration - 0.01) this.at = 0;
    this.startMedia(this.at);
  }

  private startMedia(from: number): void {
    const media = this.sound.media;
    media.playbackRate = this.speed;
    media.currentTime = from + this.sound.startsAt;
    media.play().catch(() => this.tell());
  }

  /** Play one stretch, again and again where `loop` says so. */
  playStretch(stretch: Span): void {
    if (!this.sound.isThere || stretch.end <= stretch.start) return;
    this.pause();
    this.at = stretch.start;
    this.stretch = stretch;
    const clip = this.speed === 1 && stretch.end - stretch.start < 60 ? this.sound.samples(stretch.start, stretch.end) : null;
    if (!clip || !clip.samples.length) {
      this.startMedia(stretch.start);
      return;
    }
    this.context ??= new AudioContext();
    void this.context.resume();
    const buffer = this.context.createBuffer(1, clip.samples.length, clip.rate);
    buffer.copyToChannel(clip.samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.loop = this.loop;
    source.connect(this.context.destination);
    source.onended = () => {
      if (this.source !== source) return;
      this.source = null;
      this.at = stretch.start;
      this.tell();
    };
    this.began = this.context.currentTime;
    this.source = source;
    source.start();
    this.tell();
  }

  setLoop(loop: boolean): void {
    if (this.loop && !loop && this.source) this.pause();
    this.loop = loop;
    this.tell();
  }

  setSpeed(speed: number): void {
    this.speed = speed;
    this.sound.media.playbackRate = speed;
    if (this.source && this.stretch) this.playStretch(this.stretch);
    this.tell();
  }

  pause(): void {
    const time = this.time;
    const wasPlaying = this.isPlaying;
    this.endStretch();
    this.pauseMedia();
    if (wasPlaying) this.at = time;
    this.tell();
  }

  private pauseMedia(): void {
    if (this.sound.media.paused) return;
    this.isOwnPause = true;
    this.sound.media.pause();
  }

  private endStretch(): void {
    const source = this.source;
    this.source = null;
    source?.stop();
  }

  /** Stop or repeat the stretch that the <audio> element plays, at its end; called for every frame that is drawn. */
  watch(): void {
    const media = this.sound.media;
    if (media.paused) return;
    const end = this.stretch?.end ?? this.sound.duration;
    if (this.mediaTime() < end) return;
    if (this.stretch && this.loop) {
      media.currentTime = this.stretch.start + this.sound.startsAt;
      return;
    }
    this.pauseMedia();
    this.at = this.stretch ? this.stretch.start : this.sound.duration;
    this.tell();
  }
}
