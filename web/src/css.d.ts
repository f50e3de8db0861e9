// esbuild bundles style sheets that a module imports; the compiler only has to know that such modules exist.
declare module "*.css";
