// Put in front of droplet's own tests (mocha --require): its servers are ours. The port that the tests name is the one
// that ours was given.
const droplet = require('droplet');

let port = 1; // nobody listens there

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
