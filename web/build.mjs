// Builds the pages of this package, each one file with its script and style inline:
//   npm run build                 writes them where Python finds them
//   npm run build -- --out DIR    writes them below DIR, to compare them with what is committed
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const outAt = process.argv.indexOf("--out");
const root = outAt > 0 ? process.argv[outAt + 1] : join(here, "..");

const options = {
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: ["chrome110", "firefox115", "safari16"],
  legalComments: "none",
  charset: "utf8",
};

async function bundled(entry) {
  const result = await build({ ...options, entryPoints: [join(here, entry)], plugins: [workerText] });
  // An inline script must not hold what ends it.
  return result.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

// `import text from "worker:./x.ts"` is the bundled source of a worker, which the page starts from a Blob.
const workerText = {
  name: "worker-text",
  setup(made) {
    made.onResolve({ filter: /^worker:/ }, (args) => ({
      path: join(args.resolveDir, args.path.slice("worker:".length)),
      namespace: "worker-text",
    }));
    made.onLoad({ filter: /.*/, namespace: "worker-text" }, async (args) => {
      const result = await build({ ...options, entryPoints: [args.path] });
      return { contents: result.outputFiles[0].text, loader: "text" };
    });
  },
};

function licence(name) {
  return readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8").trim();
}

async function page(folder, template, entry, style, used) {
  const script = await bundled(join(folder, entry));
  const css = await build({ entryPoints: [join(here, folder, style)], minify: true, bundle: true, write: false });
  const notices = used.map((name) => `${name}\n\n${licence(name)}`).join("\n\n");
  const parts = {
    NOTICES: notices ? `<!--\nThis page holds ${notices}\n-->` : "",
    SCRIPT_HASH: `'sha256-${createHash("sha256").update(script).digest("base64")}'`,
    STYLE: css.outputFiles[0].text.trim(),
    SCRIPT: script,
  };
  const html = readFileSync(join(here, folder, template), "utf8");
  return html.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
}

function put(path, text) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  console.log(`${path}: ${Math.ceil(Buffer.byteLength(text) / 1000)} kB`);
}

put("ctc_align/view/page.html", await page("src", "page.html", "main.ts", "page.css", ["wavesurfer.js"]));
if (existsSync(join(here, "src/app/main.ts"))) {
  put("ctc_align/serve/app.html", await page("src/app", "app.html", "main.ts", "app.css", []));
}
