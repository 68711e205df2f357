// Loaded before droplet's own tests (mocha --require): their servers are ours, and their clients connect to our port in
// place of the one that the tests name.
const droplet = require('droplet');

let port = 1;  // no server listens there

droplet.create_server = (options, callback) => {
  let closed = false;
  let child;
  import('./server.mjs').then(({ Server }) => Server.start()).then((server) => {
    child = server;
    port = server.port;
    if (closed) child.stop();
    callback();
  }, callback);
  return { close() { closed = true; child?.stop(); } };
};

const { create_client: createClient } = droplet;
droplet.create_client = (options) => createClient({ ...options, url: options.url?.replace(/:\d+$/, `:${port}`) });
