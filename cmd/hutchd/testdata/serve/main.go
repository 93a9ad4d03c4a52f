// Serve is an MCP server with one tool, where, which tells where and as whom it runs,
// and its arguments. It is asked on its standard input or, with MCP_TRANSPORT
// streamable-http, at MCP_PORT. Its first argument may be crash, which ends it at once, or deaf,
// which has it listen and say nothing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	deaf := len(os.Args) > 1 && os.Args[1] == "deaf"
	if len(os.Args) > 1 && os.Args[1] == "crash" {
		fmt.Fprintln(os.Stderr, "no settings in /etc/serve")
		os.Exit(3)
	}
	if os.Getenv("MCP_TRANSPORT") == "streamable-http" {
		listen(deaf)
		return
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if answer := answer(in.Bytes()); answer != nil {
			out.Encode(answer)
		}
	}
}

func listen(deaf bool) {
	l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("MCP_HOST"), os.Getenv("MCP_PORT")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if deaf {
			<-r.Context().Done()
			return
		}
		var body json.RawMessage
		if r.Method != "POST" || r.URL.Path != "/mcp" || json.NewDecoder(r.Body).Decode(&body) != nil {
			http.Error(w, "POST /mcp", http.StatusMethodNotAllowed)
			return
		}
		answer := answer(body)
		if answer == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	}))
}

type object = map[string]any

// answer returns the answer to a message, nil if there is none.
func answer(line []byte) object {
	var q struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal(line, &q) != nil || q.ID == nil {
		return nil
	}
	is := object{"jsonrpc": "2.0", "id": q.ID}
	switch q.Method {
	case "initialize":
		is["result"] = object{"protocolVersion": "2025-06-18", "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "serve", "version": "1"}}
	case "tools/list":
		is["result"] = object{"tools": []object{{"name": "where", "inputSchema": object{"type": "object"}}}}
	case "tools/call":
		dir, _ := os.Getwd()
		text := fmt.Sprintf("%s %d:%d %s %s %q", dir, os.Getuid(), os.Getgid(), os.Getenv("HOME"), os.Getenv("COLOUR"), os.Args)
		is["result"] = object{"content": []object{{"type": "text", "text": text}}}
	case "ping":
		is["result"] = object{}
	default:
		is["error"] = object{"code": -32601, "message": "no such method"}
	}
	return is
}
