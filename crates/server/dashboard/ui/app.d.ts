// app.js is made of all modules when the page is served: there is no file of that name.
export {};
