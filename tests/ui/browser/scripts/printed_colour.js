// The colour of a node on the map when the browser has told of the paper: what is drawn later is not on it.
button => {
  const canvas = document.querySelector('.map canvas'), frame = canvas.getBoundingClientRect();
  const box = button.getBoundingClientRect();
  dispatchEvent(new Event('beforeprint'));
  const [x, y] = [box.x + box.width / 2 - frame.x, box.y + box.height / 2 - frame.y];
  const pixel = [...canvas.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);
  return '#' + pixel.map((part) => part.toString(16).padStart(2, '0')).join('');
}
