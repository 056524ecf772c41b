// Reads an object with Kubernetes' JavaScript client, and replaces it with what was read: `node replace.mjs URL TOKEN API-PATH`.
// `@kubernetes/client-node` is looked for where the command runs.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
process.removeAllListeners('warning');
const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const { KubeConfig, KubernetesObjectApi } = await import(pathToFileURL(require.resolve('@kubernetes/client-node')));

const [url, token, path] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromOptions({
    clusters: [{ name: 'c', server: url, skipTLSVerify: true }],
    users: [{ name: 'u', token }],
    contexts: [{ name: 'c', cluster: 'c', user: 'u' }],
    currentContext: 'c',
});
const answer = await fetch(url + path, { headers: { Authorization: `Bearer ${token}` } });
const { apiVersion, kind, metadata } = await answer.json();
const client = KubernetesObjectApi.makeApiClient(config);
const found = await client.read({ apiVersion, kind, metadata: { name: metadata.name, namespace: metadata.namespace } });
await client.replace(found);
