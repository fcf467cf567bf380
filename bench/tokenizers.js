// As bench_text, for the Hugging Face tokenizers library (npm package @anush008/tokenizers; BINDING names its folder).
'use strict';
const fs = require('fs');
const { Tokenizer } = require(process.env.BINDING || '@anush008/tokenizers');

function pieces(whole) {
  const out = [];
  for (let at = 0; at < whole.length;) {
    let end = Math.min(at + 16384, whole.length);
    const line = whole.lastIndexOf(10, end - 1);
    if (end < whole.length && line > at) end = line + 1;
    out.push(whole.subarray(at, end).toString());
    at = end;
  }
  return out;
}

(async () => {
  const definition = fs.readFileSync(process.argv[2], 'utf8');
  const start = process.hrtime.bigint();
  const tokenizer = Tokenizer.fromString(definition);
  const said = { load_s: Number(process.hrtime.bigint() - start) / 1e9, texts: [] };
  if (JSON.parse(definition).truncation) tokenizer.disableTruncation();
  for (const file of process.argv.slice(3)) {
    const whole = fs.readFileSync(file), texts = pieces(whole);
    let ids = 0;
    const before = process.cpuUsage();
    for (const text of texts) ids += (await tokenizer.encode(text, null, { addSpecialTokens: false })).getLength();
    const used = process.cpuUsage(before);
    said.texts.push({ MB_s: whole.length / (used.user + used.system), ids });
  }
  console.log(JSON.stringify(said));
})();
