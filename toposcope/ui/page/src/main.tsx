import "./style/app.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { chosenTheme, wear } from "./parts/theme.tsx";
import { sourceOf } from "./source.ts";

wear(chosenTheme());
const page = document.getElementById("page");
if (page) render(<App source={sourceOf(document)} />, page);
