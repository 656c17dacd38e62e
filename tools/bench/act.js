// Do something to an element; milliseconds until the page shows what came of it.
async (element, act) => {
  const before = performance.getEntriesByName('toposcope:map').at(-1)?.startTime ?? 0;
  const frame = () => new Promise(requestAnimationFrame);
  const began = performance.now();
  if (act) {
    element.value = act;
    for (const kind of ['input', 'change']) element.dispatchEvent(new Event(kind, {bubbles: true}));
  }
  else element.click();
  while ((performance.getEntriesByName('toposcope:map').at(-1)?.startTime ?? 0) <= before) await frame();
  await frame();
  await frame();
  return performance.now() - began;
}
