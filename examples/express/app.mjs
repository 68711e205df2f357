// A service with limits: /export five times in ten minutes for each client, by sluice.yaml.
import express from 'express';

import { bySluice } from './limit.mjs';

const app = express();
app.use(bySluice(process.env.SLUICE_URL ?? 'http://127.0.0.1:8390', {
  secondsMax: Number(process.env.SLUICE_SECONDS ?? 0.25),
  onFailure: process.env.ON_FAILURE ?? 'open',
}));
app.get('/export', (_, response) => { response.type('text').send('all there is\n'); });
app.get('/', (_, response) => { response.type('text').send('hello\n'); });

const server = app.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
