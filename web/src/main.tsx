import { render } from "preact";
import { App } from "./app";
import "./board.css";

const root = document.getElementById("app")!;
root.replaceChildren(); // render() keeps what is there: the text "Loading"
render(<App />, root);
