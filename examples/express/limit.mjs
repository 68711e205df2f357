// Rate limits for Express by sluice: each request is asked about (POST /v1/take) before its handler runs.
//
//     app.use(bySluice('http://127.0.0.1:8390'));

const passedOn = ['RateLimit', 'RateLimit-Policy', 'Retry-After'];

// The path as Express's routers compare it by default: in any case, and with or without a slash at the end. So a rule's
// `path` is in lower case, without that slash.
const pathOf = (request) => request.path.toLowerCase().replace(/(.)\/$/, '$1');

// `secondsMax`: until the answer is there; `onFailure`: if sluice cannot be reached in that time requests pass (`open`) or are
// refused with 503 (`closed`). An answer that is not a decision never lets a request pass: it comes of a mistake, as in a rule
// (500), or of a sluice that cannot decide (503).
export function bySluice(url, { secondsMax = 0.25, onFailure = 'open' } = {}) {
  return async (request, response, next) => {
    const entries = { method: request.method, path: pathOf(request), ip: request.ip };
    let answer;
    let body;
    try {
      answer = await fetch(`${url}/v1/take`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ entries }),
        redirect: 'manual',
        signal: AbortSignal.timeout(1000 * secondsMax),
      });
      body = await answer.text(); // all of it, so that the connection is kept
    } catch (error) {
      console.warn(`sluice cannot be reached (${onFailure}): ${error.cause ?? error}`);
      if (onFailure === 'open') next();
      else response.status(503).set('Retry-After', '1').type('text').send('try again later\n');
      return;
    }
    if (answer.status !== 200 && answer.status !== 429) {
      console.error(`sluice does not decide: ${answer.status} ${body}`);
      response.status(answer.status >= 500 ? 503 : 500).type('text').send('the limits cannot be checked\n');
      return;
    }
    for (const name of passedOn) {
      if (answer.headers.has(name)) response.set(name, answer.headers.get(name));
    }
    if (answer.status === 200) next();
    else response.status(429).type(answer.headers.get('Content-Type')).send(body);
  };
}
