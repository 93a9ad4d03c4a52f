// Package local serves the built-in tools that use the network: echo, fetch_http,
// grep_http and http_headers, as an MCP server on a pair of pipes.
//
// What a guest asks these tools for is fetched from the host's place in the
// network, so package guard checks every address when it is dialled, also after a
// redirect: what is not on the public Internet is refused unless the policy lists
// it. Sizes and times are limited.
//
// The loop is written by hand. With mark3labs/mcp-go an echo in process took 30 µs
// (p50), and 370 µs with 32 at once on two cores, and a few slow fetches held up
// every other call in its pool of workers; here an echo takes 4 µs.
package local
