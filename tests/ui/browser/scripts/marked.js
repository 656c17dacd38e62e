// Whether something on the map is marked as changed.
() => {
  const canvas = document.querySelector('.map canvas');
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const accent = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim();
  const wanted = [1, 3, 5].map(at => parseInt(accent.slice(at, at + 2), 16));
  let found = 0;
  for (let i = 0; i < data.length; i += 4) if (wanted.every((part, at) => data[i + at] === part)) found++;
  return found > 100;
}
