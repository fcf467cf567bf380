#!/usr/bin/env node
// The Hugging Face tokenizers library, one text a line: tokenizer.json in argv[2], texts as JSON strings on standard
// input, [ids, ids with special tokens, decoded text] or null (an error) on standard output.
// Needs the npm package @anush008/tokenizers; BINDING names its folder if it cannot be resolved from here.
'use strict';
const fs = require('fs');
const readline = require('readline');
const { Tokenizer } = require(process.env.BINDING || '@anush008/tokenizers');

const definition = fs.readFileSync(process.argv[2], 'utf8');
const tokenizer = Tokenizer.fromString(definition);
const asked = JSON.parse(definition);
if (asked.truncation) tokenizer.disableTruncation();
if (asked.padding) tokenizer.disablePadding();

const plain = { addSpecialTokens: false }, special = { addSpecialTokens: true };

async function answer(text) {
  try {
    const ids = (await tokenizer.encode(text, null, plain)).getIds();
    return [ids, (await tokenizer.encode(text, null, special)).getIds(), await tokenizer.decode(ids, false)];
  } catch (error) {
    return null;
  }
}

// A batch fails as a whole when one text does.
async function answers(texts) {
  try {
    const ids = (await tokenizer.encodeBatch(texts, plain)).map(encoding => encoding.getIds());
    const both = (await tokenizer.encodeBatch(texts, special)).map(encoding => encoding.getIds());
    const decoded = await tokenizer.decodeBatch(ids, false);
    return texts.map((_, i) => [ids[i], both[i], decoded[i]]);
  } catch (error) {
    return Promise.all(texts.map(answer));
  }
}

(async () => {
  let texts = [];
  const flush = async () => {
    for (const one of await answers(texts)) process.stdout.write(JSON.stringify(one) + '\n');
    texts = [];
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    texts.push(JSON.parse(line));
    if (texts.length === 1000) await flush();
  }
  if (texts.length) await flush();
})();
