// Elements and attributes that the page does not make itself.
() => {
  const own = new Set(`html head body meta title link script style noscript div span header main aside nav section
    article search label select option input textarea button form fieldset legend canvas svg g path rect circle text
    tspan h1 h2 h3 h4 p ul ol li dl dt dd pre table caption thead tbody tr th td details summary strong small b i time
    output kbd dialog`.split(/\s+/));
  return [...document.querySelectorAll('*')].filter((element) =>
    !own.has(element.localName) ||
    [...element.attributes].some(({ name, value }) => /^on/.test(name) || (name === 'style' && /url|\[/.test(value)) ||
      (/^(href|src|srcdoc|action|formaction)$/.test(name) && element.parentElement !== document.head)) ||
    (element.localName === 'script' && /hacked/.test(element.textContent) && element.type !== 'application/json')
  ).map((element) => element.outerHTML.slice(0, 200));
}
