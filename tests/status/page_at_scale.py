"""When the status page paints its first rows, all of 20,000 objects, and a change."""

from tests.helpers.browsers import Tab

OBJECTS = 20_000
WATCH = """
window.times = {};
window.longest = 0;
const onTasks = list => { for (const task of list.getEntries()) longest = Math.max(longest, task.duration); };
new PerformanceObserver(onTasks).observe({type: 'longtask', buffered: true});
const look = () => {
  const foot = document.querySelector('.foot')?.textContent ?? '';
  const row = document.querySelector('.row')?.textContent;
  const hasAll = foot.startsWith('20,000 of 20,000 objects') && !foot.includes('more');
  if (!times.rows && row) times.rows = performance.now();
  if (!times.all && hasAll) times.all = performance.now();
  if (!times.change && row?.includes('just now')) times.change = Date.now();
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


async def opened(tab: Tab, url: str) -> None:
    """Open the view of objects, and wait until it has all of them; `times` in the page has the times (ms)."""
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    await tab.open(f"{url}#/objects")
    await tab.until("window.times?.all", seconds=30)
