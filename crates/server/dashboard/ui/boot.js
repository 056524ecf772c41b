// Lets the browser paint first, and starts the page then. A tab that nobody sees paints nothing, and starts at once.

const LATEST_MS = 1_000;
const start = () => import("./app.js");

if (document.hidden) start();
else {
  requestAnimationFrame(() => setTimeout(start));
  setTimeout(start, LATEST_MS);
}
