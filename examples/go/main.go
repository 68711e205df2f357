// A service with limits: /export five times in ten minutes for each client, by sluice.yaml.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	routes := http.NewServeMux()
	routes.HandleFunc("/export", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "all there is") })
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	timeout, err := time.ParseDuration(setting("SLUICE_SECONDS", "0.25") + "s")
	if err != nil {
		log.Fatal(err)
	}
	limits := newLimiter(setting("SLUICE_URL", "http://127.0.0.1:8390"), timeout, setting("ON_FAILURE", "open") == "open")

	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("PORT", "8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", listener.Addr())
	server := http.Server{Handler: limits.limit(routes), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
