// The colours that the canvas has under a button, the most frequent first.
button => {
  const canvas = document.querySelector('.map canvas'), frame = canvas.getBoundingClientRect();
  const box = button.getBoundingClientRect(), scale = canvas.width / frame.width;
  const data = canvas.getContext('2d').getImageData((box.x - frame.x) * scale, (box.y - frame.y) * scale,
    box.width * scale, box.height * scale).data;
  const counts = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const colour = '#' + [0, 1, 2].map(c => data[i + c].toString(16).padStart(2, '0')).join('');
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour);
}
