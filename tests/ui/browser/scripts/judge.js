addEventListener('securitypolicyviolation', (event) =>
  judge(`refused ${event.violatedDirective}: ${event.blockedURI}`));
window.hacked = () => judge('a script ran');
window.written = '';
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  window.written += text;
  return write.call(this, text, ...where);
};
