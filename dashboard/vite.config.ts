import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** While one works on it, nobody writes the <base> that a server would write. */
const baseWhileDeveloping: Plugin = {
  name: "base-while-developing",
  apply: "serve",
  transformIndexHtml: (html) => html.replace('<base href="./" />', '<base href="/" />'),
};

const target = process.env.HOLDFAST_SERVER ?? "http://127.0.0.1:7878";

export default defineConfig({
  // Relative: the server writes a <base> that fits the address, so any sub-path will do.
  base: "./",
  plugins: [react(), tailwindcss(), baseWhileDeveloping],
  build: {
    // A build goes to a folder of its own first; see hatch_build.py.
    outDir: process.env.HOLDFAST_DASHBOARD_OUT ?? "../holdfast/dashboard",
    emptyOutDir: true,
    // Nothing inline: the Content-Security-Policy allows files of our own, and only those.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  // The server takes changes from its own pages only.
  server: { proxy: { "/api": { target, changeOrigin: true, headers: { origin: target } } } },
});
