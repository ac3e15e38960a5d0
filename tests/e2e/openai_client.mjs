// openai_client.mjs - what the official client makes of our answers: chat whole and streamed, tool
// calls, aborts, errors, models. usage: openai_client.mjs URL FOLDER-WITH-NODE_MODULES
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const [url, modules] = process.argv.slice(2);
const { OpenAI } = createRequire(modules + '/')('openai');
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'What is 27 + 48?' }];
const ask = { model: 'nano', messages, temperature: 0, max_completion_tokens: 300 };

const metric = async (name) =>
    Number((await (await fetch(url + '/metrics')).text()).split('\n').find((l) => l.startsWith(name)).split(' ').pop());
const until = async (what, test) => {
    for (let i = 0; i < 1200; i++) {
        if (await test()) return;
        await new Promise((r) => setTimeout(r, 50));
    }
    assert.fail('waited in vain for: ' + what);
};
const fails = async (promise, type, want) => {
    const error = await promise.then(() => assert.fail('no error'), (e) => e);
    assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
    for (const [k, v] of Object.entries(want)) assert.equal(error[k], v, k);
    assert.ok(error.requestID, 'a request id');
};

const tests = {
    async 'a whole answer'() {
        const a = await client.chat.completions.create(ask);
        assert.equal(a.object, 'chat.completion');
        assert.equal(a.choices[0].message.role, 'assistant');
        assert.equal(a.choices[0].message.refusal, null);
        assert.equal(typeof a.choices[0].message.content, 'string');
        assert.equal(a.choices[0].logprobs, null);
        assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens);
        assert.ok(a._request_id);
    },
    async 'the same, streamed'() {
        const whole = await client.chat.completions.create(ask);
        const stream = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
        let text = '';
        stream.on('content', (d) => (text += d));
        const end = await stream.finalChatCompletion();
        assert.equal(text, whole.choices[0].message.content);
        assert.equal(end.choices[0].message.content, whole.choices[0].message.content);
        assert.equal(end.choices[0].finish_reason, whole.choices[0].finish_reason);
        assert.equal(end.usage.completion_tokens, whole.usage.completion_tokens);
    },
    async 'three choices, streamed'() {
        const stream = await client.chat.completions.create({ ...ask, n: 3, seed: 1, temperature: 1, stream: true });
        const finish = {};
        for await (const chunk of stream)
            for (const c of chunk.choices) if (c.finish_reason) finish[c.index] = c.finish_reason;
        assert.deepEqual(Object.keys(finish).sort(), ['0', '1', '2']);
    },
    async 'logprobs'() {
        const a = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 3 });
        const content = a.choices[0].logprobs.content;
        const bytes = Buffer.from(content.flatMap((t) => t.bytes));
        assert.equal(bytes.toString(), a.choices[0].message.content ?? '');
        for (const t of content) assert.equal(t.top_logprobs.length, 3);
    },
    async 'a conversation with tools'() {
        const tools = [{ type: 'function', function: {
            name: 'get_weather', description: 'Weather of a city.',
            parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }];
        const first = { ...ask, tools, messages: [{ role: 'user', content: 'What is the weather in Paris?' }] };
        const a = await client.chat.completions.create(first);
        const message = a.choices[0].message;
        const streamed = await client.chat.completions.stream(first).finalChatCompletion();
        const bare = (m) => (m.tool_calls ?? []).map((c) => [c.type, c.function.name, c.function.arguments]);
        assert.deepEqual(bare(streamed.choices[0].message), bare(message));
        assert.equal(streamed.choices[0].finish_reason, a.choices[0].finish_reason);
        assert.equal(a.choices[0].finish_reason === 'tool_calls', (message.tool_calls ?? []).length > 0);
        // whether or not the small model called: a call and its result are taken in a history
        const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Paris"}' } };
        const b = await client.chat.completions.create({ ...first, messages: [...first.messages,
            { role: 'assistant', content: null, tool_calls: [call] },
            { role: 'tool', tool_call_id: 'call_1', content: '{"sky": "clear"}' }] });
        assert.ok(b.usage.prompt_tokens > a.usage.prompt_tokens);
    },
    async 'an abort is noticed'() {
        const stream = await client.chat.completions.create({ ...ask, stream: true, max_completion_tokens: 100000, ignore_eos: true });
        let n = 0;
        for await (const _ of stream) if (++n === 5) break;
        await until('nothing in flight', async () => (await metric('trnd_http_requests_in_flight ')) === 0);
        const controller = new AbortController();
        const whole = client.chat.completions.create({ ...ask, max_completion_tokens: 100000, ignore_eos: true }, { signal: controller.signal });
        await until('one in flight', async () => (await metric('trnd_http_requests_in_flight ')) === 1);
        controller.abort();
        await assert.rejects(whole, OpenAI.APIUserAbortError);
        await until('nothing in flight', async () => (await metric('trnd_http_requests_in_flight ')) === 0);
    },
    async 'errors have classes'() {
        await fails(client.chat.completions.create({ ...ask, temperature: 9 }), OpenAI.BadRequestError,
            { status: 400, code: 'decimal_above_max_value', param: 'temperature', type: 'invalid_request_error' });
        await fails(client.chat.completions.create({ ...ask, model: 'gpt-9', stream: true }), OpenAI.NotFoundError,
            { status: 404, code: 'model_not_found', param: 'model' });
        await fails(client.chat.completions.create({ ...ask, messages: [{ role: 'user', content: 'x'.repeat(4e6) }] }),
            OpenAI.BadRequestError, { code: 'context_length_exceeded', param: 'messages' });
        await fails(client.embeddings.create({ model: 'nano', input: 'a' }), OpenAI.NotFoundError, { code: 'unknown_url' });
    },
    async 'completions'() {
        const body = { model: 'nano', prompt: 'abc', max_tokens: 12, temperature: 0 };
        const whole = await client.completions.create(body);
        let text = '';
        for await (const c of await client.completions.create({ ...body, stream: true })) text += c.choices[0].text;
        assert.equal(text, whole.choices[0].text);
    },
    async 'models'() {
        const list = await client.models.list();
        assert.deepEqual(list.data.map((m) => m.id), ['nano']);
        assert.equal((await client.models.retrieve('nano')).object, 'model');
    },
};

let n = 0, failed = 0;
for (const [name, test] of Object.entries(tests)) {
    n++;
    try {
        await test();
        console.log(`ok ${n} - ${name}`);
    } catch (e) {
        failed++;
        console.log(`not ok ${n} - ${name}\n# ${String(e.stack ?? e).slice(0, 1500).replaceAll('\n', '\n# ')}`);
    }
}
console.log(`1..${n}`);
process.exit(failed ? 1 : 0);
