// Starts the page.

import { readPageData } from "./data";
import { element } from "./dom";
import { Page } from "./page";

const app = document.getElementById("app") as HTMLElement;
const data = readPageData();
if (data === null) {
  app.append(element("p", { class: "notice" }, "This page was opened without an alignment: ctc-align view ALIGNMENT.json makes one with it."));
} else {
  document.title = `\u2068${data.name}\u2069`; // letters of other directions do not reorder what the browser adds
  new Page(app, data);
}
