// A webhook receiver on the standard library alone: verifies each delivery and prints what happened.
//
//	HALFKEY_WEBHOOK_SECRET=whsec_... go run examples/receivers/receiver.go
//
// While a secret is being changed, give both, with a comma between them.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tolerance    = 5 * time.Minute
	bodyBytesMax = 1 << 20
	seenMax      = 10000
)

type event struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	Data      json.RawMessage `json:"data"`
}

type receiver struct {
	secrets []string

	// In production: a table with a unique column, written in the transaction of your own change.
	mu    sync.Mutex
	seen  map[string]bool
	order []string
}

func (r *receiver) isGenuine(header http.Header, body []byte) bool {
	timestamp := header.Get("X-Service-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(timestamp) > 12 {
		return false
	}
	age := time.Since(time.Unix(seconds, 0))
	if age > tolerance || age < -tolerance {
		return false
	}
	signature := header.Get("X-Service-Signature")
	given, err := hex.DecodeString(strings.TrimPrefix(signature, "sha256="))
	if err != nil || !strings.HasPrefix(signature, "sha256=") {
		return false
	}
	for _, secret := range r.secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(timestamp + "."))
		mac.Write(body)
		// Takes as long for a wrong signature as for a right one.
		if hmac.Equal(mac.Sum(nil), given) {
			return true
		}
	}
	return false
}

// isNew is false for an event that was handled before.
func (r *receiver) isNew(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[id] {
		return false
	}
	r.seen[id] = true
	r.order = append(r.order, id)
	if len(r.order) > seenMax {
		delete(r.seen, r.order[0])
		r.order = r.order[1:]
	}
	return true
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	// The bytes as they came: parsing and printing them again would change what was signed.
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
	if err != nil || !r.isGenuine(request.Header, body) {
		fmt.Println("refused: the signature does not fit")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		fmt.Println("refused: no event")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// Answer at once, work afterwards: whoever answers late gets the event again.
	w.WriteHeader(http.StatusNoContent)
	if !r.isNew(e.ID) {
		fmt.Printf("again: %s %s\n", e.Type, e.ID)
		return
	}
	fmt.Printf("verified: %s %s %s\n", e.Type, e.ID, e.Data)
}

func main() {
	given := os.Getenv("HALFKEY_WEBHOOK_SECRET")
	if given == "" {
		log.Fatal("Set HALFKEY_WEBHOOK_SECRET to the `secret` of the webhook's creation.")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "3000"
	}
	address := "127.0.0.1:" + port
	server := &http.Server{
		Addr:              address,
		Handler:           &receiver{secrets: strings.Split(given, ","), seen: map[string]bool{}},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
	}
	fmt.Printf("Receiving on http://%s/hook\n", address)
	log.Fatal(server.ListenAndServe())
}
