// Words that a line break divides, none of which is too long for its place.
() => {
  const broken = [], walker = document.createTreeWalker(document.getElementById('page'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (!parentElement.checkVisibility({ visibilityProperty: true }) || parentElement.closest('.sr-only')) continue;
    for (const word of data.matchAll(/[\p{L}\p{N},.]{2,18}/gu)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}
